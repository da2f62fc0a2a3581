//! GB-15: a fourth replica joins three with many clients, which move to it.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::super::swarm::{Choice, Roamers};
use super::clients::Clients;
use super::etcd::{Etcd, PREFIX, REPLICAS};
use super::fleet::{Kind, Replica, replicas};
use crate::plan::{Plan, Size};
use crate::report::Table;

/// Allowed time until all replicas are near the mean, in seconds.
const MOST_SECONDS: f64 = 60.0;
/// Part of the mean that a replica may be away from it.
const NEAR: f64 = 0.2;
/// Pause between two looks at the clients.
const POLL: Duration = Duration::from_millis(20);

pub(crate) async fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let choices = &[("fewest", Choice::Fewest), ("in turn", Choice::InTurn)][..size.steps];
    for &(name, choice) in choices {
        join(plan, size, table, name, choice).await?;
    }
    Ok(())
}

async fn join(
    plan: &Plan,
    size: Size,
    table: &mut Table,
    name: &str,
    choice: Choice,
) -> Result<(), String> {
    // Below twelve clients per replica and ten more than the mean, nothing is moved.
    let (clusters, count, limit) = (size.many(), size.clients, size.length);
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let three = replicas(Kind::Oxds, &etcd, PREFIX)?;
    for replica in &three {
        replica.ready().await?;
    }
    let clients = Clients::of(&three[0], clusters, count).await?;
    let roamers = clients.roam(&three, choice).await?;
    let before = (roamers.mark(), roamers.moves());

    let fourth = Replica::oxds(&etcd.urls, PREFIX, "r3")?;
    fourth.ready().await?;
    roamers.join(fourth.grpc.parse().map_err(|_| "not an address")?);
    let start = Instant::now();
    while !is_balanced(&roamers) && start.elapsed() < limit {
        sleep(POLL).await;
    }
    let seconds = start.elapsed().as_secs_f64();
    let (now, moves) = (roamers.mark(), roamers.moves());
    let moved = moves.ended - before.1.ended;
    if moved == 0 {
        return Err("no client was moved".to_owned());
    }
    if !plan.smoke {
        let what = format!("{count} clients, {name}: within 20 % (s)");
        table.limit("GB-15", &what, seconds, MOST_SECONDS);
    }
    let again = (now.resources - before.0.resources) as f64;
    let what = format!("{name}: resources sent again");
    table.limit("GB-15", &what, again, 0.0);
    let turned_away = (moves.turned_away - before.1.turned_away) as f64;
    let what = format!("{name}: clients turned away");
    table.limit("GB-15", &what, turned_away, 0.0);
    table.note(&format!(
        "GB-15: {moved} moves; clients at the end: {:?}",
        roamers.clients()
    ));
    Ok(())
}

/// Whether each replica has the mean of clients, or nearly.
fn is_balanced(roamers: &Roamers) -> bool {
    let clients = roamers.clients();
    let mean = clients.iter().sum::<usize>() as f64 / (REPLICAS + 1) as f64;
    let far = |&count: &usize| (count as f64 - mean).abs() > NEAR * mean;
    !clients.iter().any(far)
}

//! GB-4: one of three replicas is killed, and its clients connect to the others.

use super::clients::Clients;
use super::etcd::{Etcd, PREFIX};
use super::fleet::{Fleet, Kind};
use crate::plan::{Plan, Size};
use crate::report::Table;

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, count) = (size.many(), size.clients);
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    let clients = Clients::of(&fleet.replicas[0], clusters, count).await?;
    let swarms = clients.connect(&fleet.replicas).await?;
    let returned = clients.lose_one(&mut fleet, swarms).await?;
    returned.print("GB-4", table);
    Ok(())
}

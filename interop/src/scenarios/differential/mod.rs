//! A differential run: which client NACKs which configuration.
//!
//! A generator makes configurations with one change each of a valid one: within the rules, at their limits, and beyond.
//! C-core, grpc-go and our channel get each of them, as it is. Each difference between the clients is either in the
//! tables of the cases, with the rule that decides it, or a failure. `docs/conformance-client.md` lists those of the
//! tables.
//!
//! ```text
//!   cases ─► generate ─► configurations ─► a judge per client ◄── ADS ── 150 targets in one process
//!                                            │ ACK or NACK
//!                                            ▼
//!                                          compare
//! ```

mod case;
mod cluster;
mod endpoint;
mod generate;
mod listener;
#[cfg(test)]
mod page;
mod route;
mod verdict;

use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;

use self::case::{Case, Party};
use self::generate::{Configuration, Random, configuration};
use self::verdict::{Judge, PREFIX, Verdict, target};
use super::Scenario;
use crate::backend::{Backend, METHOD};
use crate::peers::channel;
use crate::peers::grpc::Grpc;
use crate::peers::oxds::{Bootstrap, bootstrap_of};
use crate::process::Process;
use crate::{Context, Fallible};

/// Seed of the drawn values, unless this variable has another one.
const SEED: u64 = 14;
const SEED_VARIABLE: &str = "OXDS_INTEROP_SEED";
/// Each case at least once, and some of them again with other values.
const CONFIGURATIONS: usize = 300;
/// Targets of one process: fewer than the streams of one HTTP/2 connection, which C-core uses for all of them.
const AT_ONCE: usize = 150;
/// From the start of a client to its last verdict, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Least number of configurations that all accept, and that all NACK: or the agreement would be an empty one.
const LEAST: usize = 50;

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "differential_clients_nack_the_same".to_owned();
    vec![Scenario::new(name, nack_the_same)]
}

/// All cases, in the order of the rows.
fn cases() -> impl Iterator<Item = &'static Case> {
    let tables = [
        listener::CASES,
        route::CASES,
        cluster::CASES,
        endpoint::CASES,
    ];
    tables.into_iter().flatten()
}

/// Given configurations with one change each of a valid one,
/// when C-core, grpc-go and our channel get them,
/// then all accept, or all NACK, but for the listed differences.
async fn nack_the_same(cx: Context) -> Fallible {
    let seed = match std::env::var(SEED_VARIABLE) {
        Ok(seed) => seed.parse()?,
        Err(_) => SEED,
    };
    let backend = Backend::start("blue").await?;
    let configurations = configurations(seed, backend.address)?;
    let [core, go, oxds] = Party::ALL.map(|party| verdicts(&cx, party, &configurations));
    let all = tokio::try_join!(core, go, oxds)?;
    let outcomes: Vec<Outcome> = (0..configurations.len())
        .map(|index| Outcome {
            configuration: &configurations[index],
            verdicts: [&all.0[index], &all.1[index], &all.2[index]],
        })
        .collect();
    let report: Vec<_> = outcomes.iter().map(Outcome::to_string).collect();
    std::fs::write(cx.dir.join("differential.log"), report.join("\n"))?;

    let count = |nacks: usize| outcomes.iter().filter(|one| one.nacks() == nacks).count();
    let (accepted, nacked) = (count(0), count(3));
    println!(
        "     seed {seed}: of {} configurations, all accept {accepted} and NACK {nacked}",
        outcomes.len()
    );
    let wrong: Vec<_> = outcomes.iter().filter(|one| !one.is_expected()).collect();
    if !wrong.is_empty() {
        let wrong: Vec<_> = wrong.into_iter().map(Outcome::to_string).collect();
        let count = wrong.len();
        return Err(format!("{count} unexpected:\n     {}", wrong.join("\n     ")).into());
    }
    if accepted < LEAST || nacked < LEAST {
        return Err(format!("expected {LEAST} of each at least").into());
    }
    Ok(())
}

/// The configurations of a seed.
fn configurations(seed: u64, backend: std::net::SocketAddr) -> Fallible<Vec<Configuration>> {
    let cases: Vec<_> = cases().collect();
    let mut random = Random(seed);
    (0..CONFIGURATIONS.max(cases.len()))
        .map(|index| {
            let again = random.below(cases.len());
            let case = cases.get(index).copied().unwrap_or(cases[again]);
            configuration(case, &mut random, &target(index % AT_ONCE), backend)
        })
        .collect()
}

/// The verdicts of a client about all configurations.
async fn verdicts(
    cx: &Context,
    party: Party,
    configurations: &[Configuration],
) -> Fallible<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for (round, part) in configurations.chunks(AT_ONCE).enumerate() {
        let mut judge = Judge::start(part.into()).await?;
        let node = format!("{}-{round}", party.name());
        let file = bootstrap_of(cx, Bootstrap::Grpc, judge.address, &node).await?;
        let mut client = Client::start(cx, party, &file, part.len())?;
        let mut part: Vec<Option<Verdict>> = vec![None; part.len()];
        let wait = async {
            while part.contains(&None) {
                let (number, verdict) = judge.next().await?;
                part[number].get_or_insert(verdict);
            }
            Fallible::Ok(())
        };
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(waited) => waited?,
            Err(_) => {
                client.running()?;
                let missing = part.iter().position(Option::is_none).unwrap_or_default();
                let missing = &configurations[round * AT_ONCE + missing];
                return Err(
                    format!("{node}: no verdict: {} {}", missing.case.row, missing.patch).into(),
                );
            }
        }
        verdicts.extend(part.into_iter().flatten());
    }
    Ok(verdicts)
}

/// A running client with a channel for each target.
enum Client {
    Ours(JoinSet<Fallible>),
    Grpc(Box<Process>),
}

impl Client {
    fn start(cx: &Context, party: Party, bootstrap: &Path, targets: usize) -> Fallible<Self> {
        let grpc = match party {
            Party::Core => Grpc::Core,
            Party::Go => Grpc::Go,
            Party::Oxds => {
                let json = std::fs::read_to_string(bootstrap)?;
                return (0..targets)
                    .map(|index| {
                        let bootstrap = oxds_channel::Bootstrap::from_json(&json)?;
                        let mut channel = channel::open_target(bootstrap, &target(index))?;
                        Ok(async move {
                            // The result of the call does not matter: it makes the channel fetch its configuration.
                            let _ = channel::call(&mut channel, METHOD).await;
                            std::future::pending::<Fallible>().await
                        })
                    })
                    .collect::<Fallible<JoinSet<_>>>()
                    .map(Self::Ours);
            }
        };
        let mut command = grpc.command(cx, bootstrap, &format!("xds:///{PREFIX}"));
        command.args(["targets", &targets.to_string()]);
        let name = format!("{}-{}", grpc.name(), targets);
        let process = Process::spawn(&name, command, &cx.dir, |_| ())?;
        Ok(Self::Grpc(Box::new(process)))
    }

    /// Returns an error if the process has ended.
    fn running(&mut self) -> Fallible {
        match self {
            Self::Ours(channels) => match channels.try_join_next() {
                Some(ended) => ended?,
                None => Ok(()),
            },
            Self::Grpc(process) => process.running(),
        }
    }
}

/// The verdicts about one configuration, in the order of [`Party::ALL`].
struct Outcome<'a> {
    configuration: &'a Configuration,
    verdicts: [&'a Verdict; 3],
}

impl Outcome<'_> {
    fn nacks(&self) -> usize {
        self.verdicts.iter().filter(|one| one.is_some()).count()
    }

    /// Whether all agree, or differ as the case says.
    fn is_expected(&self) -> bool {
        let case = self.configuration.case;
        if case.difference.is_none() {
            return [0, 3].contains(&self.nacks());
        }
        let mut pairs = Party::ALL.into_iter().zip(self.verdicts);
        pairs.all(|(party, verdict)| case.differs_for(party) == Some(verdict.is_some()))
    }
}

impl std::fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Configuration { case, patch, .. } = self.configuration;
        write!(f, "{} {}: {patch}", case.row, case.target.name())?;
        if let Some(difference) = case.difference {
            write!(f, " (a listed difference: {})", difference.rule)?;
        }
        for (party, verdict) in Party::ALL.into_iter().zip(self.verdicts) {
            match verdict {
                None => write!(f, "; {} accepts", party.name())?,
                Some(reason) => write!(f, "; {} NACKs: {reason:?}", party.name())?,
            }
        }
        Ok(())
    }
}

//! time of one choice of an endpoint by each policy, among 10, 1,000 and 10,000 ready endpoints, beside grpc-go's
//! pickers.
//!
//! Both sides are driven without connections: all endpoints are ready, and a loop picks. Ours is the choice by
//! `oxds_core::lb::policy`; in grpc-go it is `Picker.Pick` and the callback at the end of the call, which its policies
//! use for counting.

mod measure;

pub(crate) use measure::measure;

use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Row, Table, Target, median};
use crate::roles::{MeasuredPolicy, Part, Processors, Role};

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (sizes, rounds, picks) = (size.resources, size.rounds, size.steps as u32);
    let peer = program("OXDS_BENCH_GRPC_GO")?;
    for policy in MeasuredPolicy::ALL {
        for &endpoints in sizes {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            // grpc-go needs a minute to connect 10,000 endpoints, since each of them changes the picker.
            let peer_rounds = if endpoints > 1_000 { 1 } else { rounds };
            for round in 0..rounds {
                let role = Role::Picks {
                    policy,
                    endpoints,
                    picks,
                };
                ours.push(Part::start_measuring(&role)?.finish::<f64>()?);
                if round >= peer_rounds {
                    continue;
                }
                let arguments = [
                    "pick",
                    policy.name(),
                    &endpoints.to_string(),
                    &picks.to_string(),
                ]
                .map(str::to_owned);
                let part = Part::start_program_measuring(&peer, Processors::Both, &arguments)?;
                theirs.push(part.finish::<f64>()?);
            }
            table.row(&Row {
                id: "R-8",
                what: &format!("{}, {endpoints} endpoints (ns)", policy.name()),
                ours: median(ours),
                peer: ("grpc-go", median(theirs)),
                target: Target::AtMost(0.5),
            });
        }
    }
    Ok(())
}

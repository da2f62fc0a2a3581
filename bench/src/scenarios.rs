//! The table of all scenarios: their ids, their size in a smoke run and in a full one, and their function.

use crate::plan::{Plan, Size};
use crate::push::replicas;
use crate::push::rig::wait;
use crate::report::Table;
use crate::{
    api, control, endpoints, follow, load, operator_commands, picks, push, rpc, secured, translate,
};

/// A scenario, which fills one row of the result or more.
pub(crate) struct Scenario {
    pub(crate) ids: &'static [&'static str],
    smoke: Size,
    full: Size,
    run: fn(&Plan, Size, &mut Table) -> Result<(), String>,
}

impl Scenario {
    pub(crate) fn is_wanted(&self, plan: &Plan) -> bool {
        self.ids.iter().any(|id| plan.wants(id))
    }

    /// Runs it in the size of the plan.
    pub(crate) fn run(&self, plan: &Plan, table: &mut Table) -> Result<(), String> {
        let size = if plan.smoke { self.smoke } else { self.full };
        (self.run)(plan, size, table)
    }
}

const NONE: Size = Size::NONE;

/// All scenarios, in the order in which they run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        ids: &["R-1", "R-2", "R-9", "R-10", "R-11", "R-12"],
        smoke: NONE.rounds(1).millis(300),
        full: NONE.rounds(5).seconds(3),
        run: rpc::run,
    },
    Scenario {
        ids: &["R-3"],
        smoke: NONE.resources(&[20]).steps(2),
        full: NONE.resources(&[10_000]).steps(25),
        run: endpoints::change,
    },
    Scenario {
        ids: &["R-4"],
        smoke: NONE.resources(&[4, 20]),
        full: NONE.resources(&[4, 10_000]),
        run: endpoints::held,
    },
    Scenario {
        ids: &["R-5"],
        smoke: NONE.resources(&[10, 50]).rounds(1),
        full: NONE.resources(&[100, 1_000]).rounds(5),
        run: control::startup,
    },
    Scenario {
        ids: &["R-6"],
        smoke: NONE.rate(200).rounds(1),
        full: NONE.rate(5_000).rounds(5),
        run: control::failover,
    },
    Scenario {
        ids: &["R-7"],
        smoke: NONE.resources(&[100, 1_000]).steps(20),
        full: NONE.resources(&[1_000, 100_000]).steps(500),
        run: control::held,
    },
    Scenario {
        ids: &["R-8"],
        smoke: NONE.resources(&[10]).rounds(1).steps(1_000),
        full: NONE
            .resources(&[10, 1_000, 10_000])
            .rounds(5)
            .steps(1_000_000),
        run: picks::run,
    },
    Scenario {
        ids: &["S-R1", "S-R2", "S-R3"],
        smoke: NONE.rounds(1).millis(300).steps(20),
        full: NONE.rounds(5).seconds(3).steps(2_000),
        run: secured::run,
    },
    Scenario {
        ids: &["P-1"],
        smoke: NONE.resources(&[100, 1_000]).steps(20),
        full: NONE.resources(&[1_000, 10_000, 100_000]).steps(500),
        run: push::change::run,
    },
    Scenario {
        ids: &["P-2"],
        smoke: NONE.resources(&[1_000]).clients(10).steps(10),
        full: NONE.resources(&[100_000]).clients(100).steps(200),
        run: push::fan_out::all,
    },
    Scenario {
        ids: &["P-3"],
        smoke: NONE.resources(&[1]).clients(100).steps(10),
        full: NONE.resources(&[1]).clients(1_000).steps(200),
        run: push::fan_out::one_name,
    },
    Scenario {
        ids: &["P-4"],
        smoke: NONE.resources(&[1_000]).clients(100).steps(10),
        full: NONE.resources(&[10_000]).clients(1_000).steps(200),
        run: push::fan_out::ten_names,
    },
    Scenario {
        ids: &["P-5"],
        smoke: NONE.resources(&[1_000]),
        full: NONE.resources(&[100_000]),
        run: push::full_state::run,
    },
    Scenario {
        ids: &["P-6", "P-7"],
        smoke: NONE.clients(20),
        full: NONE.clients(1_000),
        run: push::reconnect::run,
    },
    Scenario {
        ids: &["P-8"],
        smoke: NONE.resources(&[100, 1_000]).clients(20),
        full: NONE.resources(&[1_000, 100_000]).clients(50),
        run: push::idle::run,
    },
    Scenario {
        ids: &["P-9"],
        smoke: NONE.clients(10).seconds(1),
        full: NONE.clients(100).seconds(20),
        run: push::sustained::run,
    },
    Scenario {
        ids: &["P-10"],
        smoke: NONE.clients(100).rounds(2),
        full: NONE.clients(1_000).rounds(10),
        run: push::stalled::run,
    },
    Scenario {
        ids: &["P-11"],
        smoke: NONE.resources(&[1_000]).rounds(3),
        full: NONE.resources(&[100_000]).rounds(20),
        run: push::replace::run,
    },
    Scenario {
        ids: &["P-12"],
        smoke: NONE.resources(&[1_000]).clients(20),
        full: NONE.resources(&[1_000]).clients(1_000),
        run: push::groups::run,
    },
    Scenario {
        ids: &["P-13"],
        smoke: NONE.clients(20),
        full: NONE.clients(1_000),
        run: push::poison::run,
    },
    Scenario {
        ids: &["GB-1", "GB-2"],
        smoke: NONE.resources(&[1_000]).rounds(5).clients(10).steps(300),
        full: NONE
            .resources(&[100_000])
            .rounds(100)
            .clients(100)
            .steps(5_000),
        run: |plan, size, table| wait(replicas::publish::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-3", "GB-8"],
        smoke: NONE.resources(&[1_000]).rounds(1),
        full: NONE.resources(&[100_000]).rounds(5),
        run: |plan, size, table| wait(replicas::start::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-4"],
        smoke: NONE.resources(&[1_000]).clients(30),
        full: NONE.resources(&[100_000]).clients(999),
        run: |plan, size, table| wait(replicas::death::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-5"],
        smoke: NONE.resources(&[1_000]).clients(30).rate(200).millis(200),
        full: NONE
            .resources(&[100_000])
            .clients(300)
            .rate(5_000)
            .seconds(3),
        run: |plan, size, table| wait(replicas::rolling::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-6"],
        smoke: NONE.seconds(1),
        full: NONE.seconds(60),
        run: |plan, size, table| wait(replicas::rate::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-7"],
        smoke: NONE.resources(&[100]).seconds(1).rounds(3).steps(12),
        full: NONE.resources(&[1_000]).seconds(30).rounds(30).steps(200),
        run: |plan, size, table| wait(replicas::writes::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-9"],
        smoke: NONE.resources(&[100, 1_000]).steps(3).millis(300).rounds(5),
        full: NONE
            .resources(&[1_000, 10_000, 100_000])
            .steps(20)
            .seconds(20)
            .rounds(400),
        run: |plan, size, table| wait(replicas::cost::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-10"],
        smoke: NONE.rounds(1).millis(300).steps(1),
        full: NONE.rounds(5).seconds(3).steps(2),
        run: |plan, size, table| wait(replicas::leader::run(plan, size, table)),
    },
    Scenario {
        // In a smoke run few clients: replicas whose numbers of streams differ by less than ten ask no client to move,
        // however slowly they connect.
        ids: &["GB-12"],
        smoke: NONE.resources(&[1_000]).rounds(1).clients(5),
        full: NONE.resources(&[100_000]).rounds(5).clients(100),
        run: |plan, size, table| wait(replicas::compaction::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-13"],
        smoke: NONE.resources(&[1_000]).rounds(2),
        full: NONE.resources(&[100_000]).rounds(5),
        run: |plan, size, table| wait(replicas::folder::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-14"],
        smoke: NONE.clients(10).rounds(2).seconds(1),
        full: NONE.clients(300).rounds(20).seconds(3),
        run: |plan, size, table| wait(replicas::waiting::run(plan, size, table)),
    },
    Scenario {
        // A replica watches an imbalance for three seconds, by reports that are two seconds apart, before it moves the
        // first clients.
        ids: &["GB-15"],
        smoke: NONE.resources(&[1_000]).clients(120).seconds(12).steps(1),
        full: NONE
            .resources(&[100_000])
            .clients(1_000)
            .seconds(300)
            .steps(2),
        run: |plan, size, table| wait(replicas::joining::run(plan, size, table)),
    },
    Scenario {
        ids: &["GB-16"],
        smoke: NONE.resources(&[1_000]).clients(30).seconds(1),
        full: NONE.resources(&[100_000]).clients(999),
        run: |plan, size, table| wait(replicas::outage::run(plan, size, table)),
    },
    Scenario {
        ids: &["O-1", "O-2"],
        smoke: NONE.resources(&[1_000]).clients(200).rounds(1).steps(10),
        full: NONE
            .resources(&[100_000])
            .clients(10_000)
            .rounds(10)
            .steps(200),
        run: push::operators::run,
    },
    Scenario {
        ids: &["O-3"],
        smoke: NONE.resources(&[10_000]).rounds(1),
        full: NONE.resources(&[100_000]).rounds(5),
        run: operator_commands::plans,
    },
    Scenario {
        ids: &["O-4"],
        smoke: NONE.resources(&[1_000]).rounds(1),
        full: NONE.resources(&[10_000]).rounds(5),
        run: operator_commands::route,
    },
    Scenario {
        ids: &["F-1"],
        smoke: NONE.resources(&[1_000]).rounds(1),
        full: NONE.resources(&[100_000]).rounds(5),
        run: load::run,
    },
    Scenario {
        ids: &["F-2"],
        smoke: NONE.rounds(5),
        full: NONE.rounds(200),
        run: follow::run,
    },
    Scenario {
        ids: &["V-1"],
        smoke: NONE.rounds(1),
        full: NONE.rounds(7),
        run: api::run,
    },
    Scenario {
        ids: &["V-3"],
        smoke: NONE.rounds(3).steps(20),
        full: NONE.rounds(15).steps(2_000),
        run: translate::run,
    },
];

//! resident memory of a client per endpoint: of those that it is connected to, and of those that are for failover.

use super::rig::Rig;
use crate::control::calls::Client;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::Layout;

const FORMS: [(&str, Layout); 2] = [
    ("connected", Layout::InUse),
    ("for failover", Layout::ForFailover),
];

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (few, many) = (size.few(), size.many());
    for (name, layout) in FORMS {
        let per_endpoint = |client, table: &mut Table| -> Result<f64, String> {
            let small = resident(client, few, layout, table)?;
            let large = resident(client, many, layout, table)?;
            Ok(large.saturating_sub(small) as f64 / (many - few) as f64 / 1024.0)
        };
        let ours = per_endpoint(Client::Oxds, table)?;
        for (peer, target) in [
            (Client::TonicXds, Target::AtMost(0.3)),
            (Client::GrpcGo, Target::None),
        ] {
            let theirs = per_endpoint(peer, table)?;
            table.row(&Row {
                id: "R-4",
                what: &format!("{many} endpoints, {name}, KiB for each"),
                ours,
                peer: (peer.name(), theirs),
                target,
            });
        }
    }
    Ok(())
}

/// Returns the resident memory of a client that has followed this many endpoints, in bytes.
fn resident(
    client: Client,
    count: usize,
    layout: Layout,
    table: &mut Table,
) -> Result<u64, String> {
    let mut rig = Rig::start(client, count, layout, 100)?;
    let connected = match layout {
        Layout::InUse => rig.connected(count)?,
        Layout::ForFailover => 0,
    };
    if layout == Layout::InUse && connected < count {
        let name = client.name();
        table.note(&format!(
            "R-4: {name} connects to {connected} of {count} endpoints"
        ));
    }
    rig.settle()?;
    Ok(rig.client.memory()?.resident)
}

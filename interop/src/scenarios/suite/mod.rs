//! gRPC's xDS interop suite: its cases run with the programs of two languages, our client with grpc-go's servers, and
//! grpc-go's client with ours, under two control planes (`basic`). `url_map` and `balancing` have the cases of the
//! newer suite (grpc/psm-interop), also with our client and our servers, and `secure` those of its secure mode.

mod balancing;
mod basic;
mod mesh;
mod secure;
mod url_map;

use self::mesh::Roles;
use super::Scenario;
use crate::Context;
use crate::peers::control_plane::Make;
use crate::peers::suite::Suite;

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (client, server) in [(Suite::Oxds, Suite::Go), (Suite::Go, Suite::Oxds)] {
        for control_plane in [Make::Oxds, Make::GO] {
            let roles = Roles {
                client,
                server,
                control_plane,
            };
            let mut add = |what: &str, run: fn(Context, Roles) -> super::scenario::Ending| {
                let (client, plane) = (client.name(), control_plane.name());
                let name = format!("suite_{client}_client_by_{plane}_{what}");
                all.push(Scenario::new(name, move |cx| run(cx, roles)));
            };
            basic::add(&mut add);
        }
    }
    let name = "suite_oxds_client_reports_resources_by_csds".to_owned();
    all.push(Scenario::new(name, basic::reports_csds));
    for (client, server) in [
        (Suite::Oxds, Suite::Oxds),
        (Suite::Oxds, Suite::Go),
        (Suite::Go, Suite::Oxds),
    ] {
        let roles = Roles {
            client,
            server,
            control_plane: Make::Oxds,
        };
        let mut add = |what: &str, run: fn(Context, Roles) -> super::scenario::Ending| {
            let (client, server) = (client.name(), server.name());
            let name = format!("suite_{client}_client_with_{server}_servers_{what}");
            all.push(Scenario::new(name, move |cx| run(cx, roles)));
        };
        url_map::add(&mut add);
        balancing::add(&mut add, client);
        secure::add(&mut add);
    }
    all
}

//! Runs one role of a scenario in this process.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::roles::Role;
use crate::{LiveHeap, api, control, endpoints, load, picks, push, rpc, secured, serve};

/// Runs the role that this JSON describes, in this process.
pub(crate) fn play(json: &str, live_heap: LiveHeap) -> ExitCode {
    let role = serde_json::from_str::<Role>(json).map_err(|error| error.to_string());
    match role.and_then(|role| run(role, live_heap)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role, live_heap: LiveHeap) -> Result<(), String> {
    let runtime = match role {
        Role::Client { threads, .. } if threads > 1 => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads).enable_all().build()
        }
        _ => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
    };
    let runtime = runtime.map_err(|error| error.to_string())?;
    match role {
        Role::Backend => runtime.block_on(serve::backend()),
        Role::ControlPlane { folder } => runtime.block_on(serve::control_plane(&folder)),
        Role::Endpoints {
            folder,
            count,
            layout,
            first,
            changed,
        } => {
            let ports = endpoints::Ports { first, changed };
            runtime.block_on(endpoints::serve(&folder, count, layout, ports))
        }
        Role::Push {
            holding,
            count,
            groups,
            keys,
        } => {
            let served = push::serve(holding, count, groups, keys.as_deref(), live_heap);
            runtime.block_on(served)
        }
        Role::Load {
            folder,
            check_life_cycle,
        } => result(&runtime.block_on(load::load(&folder, check_life_cycle))?),
        Role::Parse { folder } => result(&load::parse(&folder)?),
        Role::Api { folder, work } => result(&api::work(&folder, work)?),
        Role::Calls {
            variant,
            rate,
            bootstrap,
        } => runtime.block_on(control::calls::play(variant, rate, &bootstrap)),
        Role::Holder {
            holding,
            control_plane,
        } => runtime.block_on(control::held::play(holding, &control_plane)),
        Role::Picks {
            policy,
            endpoints,
            picks,
        } => result(&picks::measure(policy, endpoints, picks)?),
        Role::Client {
            variant,
            traffic,
            threads: _,
            millis,
            control_plane,
            backends,
            keys,
        } => {
            println!("ready");
            let length = Duration::from_millis(millis);
            let peers = rpc::client::Peers {
                control_plane: &control_plane,
                backends: &backends,
                keys: keys.as_deref(),
            };
            let measured = rpc::client::measure(variant, &peers, traffic, length);
            result(&runtime.block_on(measured)?)
        }
        Role::Secured {
            server,
            control_plane,
            keys,
        } => runtime.block_on(secured::serve(server, &control_plane, &keys)),
    }
}

fn result(measured: &impl Serialize) -> Result<(), String> {
    println!(
        "{}",
        serde_json::to_string(measured).map_err(|error| error.to_string())?
    );
    Ok(())
}

//! S-R1 to S-R3: TLS between services: handshakes of a server, and CPU per RPC of client and server over mTLS.
//!
//! | | measured | beside |
//! |---|---|---|
//! | S-R1 | `XdsServer`: CPU of a whole mTLS handshake, full and resumed | tonic's server, grpc-go's server |
//! | S-R2 | `XdsChannel`: CPU per unary RPC over mTLS, 4 backends on tonic | tonic's `balance_list`, grpc-go's channel |
//! | S-R3 | `XdsServer`: CPU per unary RPC over mTLS, one client on tonic | tonic's server, grpc-go's server |

mod echo;
mod handshake;
mod server;

use std::net::SocketAddr;
use std::path::Path;

pub(crate) use server::serve;
use tempfile::TempDir;

use crate::keys::Keys;
use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Processors, Role, SecuredServer, Traffic, Variant};
use crate::rpc::client::Measured;
use crate::rpc::service_folder;

/// Backends behind the service, as in R-1.
const BACKENDS: usize = 4;

/// Calls of S-R2 and S-R3, as in R-1.
const TRAFFIC: Traffic = Traffic::Unary {
    in_flight: 32,
    bytes: 100,
};

/// CPU per RPC over TLS, relative to tonic's own TLS.
const TARGET: f64 = 1.1;

pub(crate) fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let keys = Keys::new()?;
    if plan.wants("S-R1") {
        handshakes(&keys, size, table)?;
    }
    if plan.wants("S-R2") {
        clients(&keys, size, table)?;
    }
    if plan.wants("S-R3") {
        servers(&keys, size, table)?;
    }
    Ok(())
}

/// One of the compared servers, which is running.
struct Running {
    name: &'static str,
    part: Part,
    /// Of ours only.
    _control: Option<(Part, TempDir)>,
}

impl Running {
    fn ours(keys: &Path) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let control = Part::start(&Role::ControlPlane {
            folder: folder.path().to_owned(),
        })?;
        let part = Part::start(&Role::Secured {
            server: SecuredServer::Oxds,
            control_plane: control.hello().to_owned(),
            keys: keys.to_owned(),
        })?;
        let address = part.hello().parse();
        let address: SocketAddr = address.map_err(|error| format!("{}: {error}", part.hello()))?;
        let listener = server::listener(address);
        std::fs::write(folder.path().join("listener.yaml"), listener)
            .map_err(|error| format!("listener: {error}"))?;
        Ok(Self {
            name: "oxds",
            part,
            _control: Some((control, folder)),
        })
    }

    fn tonic(keys: &Path) -> Result<Self, String> {
        let part = Part::start(&Role::Secured {
            server: SecuredServer::Tonic,
            control_plane: String::new(),
            keys: keys.to_owned(),
        })?;
        Ok(Self {
            name: "tonic",
            part,
            _control: None,
        })
    }

    fn grpc_go(keys: &Path) -> Result<Self, String> {
        let arguments = ["secured-server".to_owned(), keys.display().to_string()];
        Ok(Self {
            name: "grpc-go",
            part: Part::start_program(&program("OXDS_BENCH_GRPC_GO")?, &arguments)?,
            _control: None,
        })
    }

    /// All of them, ours first.
    fn all(keys: &Path) -> Result<[Self; 3], String> {
        Ok([Self::ours(keys)?, Self::tonic(keys)?, Self::grpc_go(keys)?])
    }
}

fn handshakes(keys: &Keys, size: Size, table: &mut Table) -> Result<(), String> {
    let servers = Running::all(keys.folder.path())?;
    let rows = [
        ("CPU of the server per full handshake (us)", false),
        ("CPU of the server per resumed handshake (us)", true),
    ];
    for (what, resumed) in rows {
        let mut results = vec![Vec::new(); servers.len()];
        for _ in 0..size.rounds {
            for (server, results) in servers.iter().zip(&mut results) {
                // The first connections wait until the server has its configuration, or have no session yet.
                let load = handshake::Load::new(&keys.connector, server.part.hello(), resumed)?;
                let before = server.part.cpu()?;
                let share = load.run(size.steps)?;
                let cpu = server.part.cpu()? - before;
                results.push(cpu.as_secs_f64() * 1e6 / size.steps as f64);
                let expected = if resumed { 0.99..=1.0 } else { 0.0..=0.0 };
                if !expected.contains(&share) {
                    table.note(&format!("{}: {:.0} % resumed", server.name, share * 100.0));
                }
            }
        }
        compare(table, ("S-R1", what), Target::None, &servers, results);
    }
    Ok(())
}

/// Compares medians over rounds; `target` is for tonic.
fn compare(
    table: &mut Table,
    (id, what): (&str, &str),
    target: Target,
    servers: &[Running],
    results: Vec<Vec<f64>>,
) {
    let medians: Vec<_> = results.into_iter().map(median).collect();
    for (peer, value) in servers.iter().zip(&medians).skip(1) {
        table.row(&Row {
            id,
            what,
            ours: medians[0],
            peer: (peer.name, *value),
            target: match peer.name {
                "tonic" => target,
                _ => Target::None,
            },
        });
    }
}

/// Calls by one of our clients over mTLS.
fn call(
    variant: Variant,
    size: Size,
    control_plane: &str,
    backends: &[String],
    keys: &Keys,
) -> Result<Measured, String> {
    Part::start(&Role::Client {
        variant,
        traffic: TRAFFIC,
        threads: 1,
        millis: size.length.as_millis() as u64,
        control_plane: control_plane.to_owned(),
        backends: backends.to_owned(),
        keys: Some(keys.folder.path().to_owned()),
    })?
    .finish()
}

fn clients(keys: &Keys, size: Size, table: &mut Table) -> Result<(), String> {
    let folder = keys.folder.path();
    let backends: Vec<Running> = (0..BACKENDS)
        .map(|_| Running::tonic(folder))
        .collect::<Result<_, _>>()?;
    let addresses = backends.iter().map(|one| one.part.hello().to_owned());
    let addresses: Vec<String> = addresses.collect();
    let service = service_folder(&addresses, TLS_OF_CLUSTER)
        .map_err(|error| format!("service folder: {error}"))?;
    let control = Part::start(&Role::ControlPlane {
        folder: service.path().to_owned(),
    })?;
    let peer = program("OXDS_BENCH_GRPC_GO")?;
    let mut arguments = vec![
        "secured-client".to_owned(),
        folder.display().to_string(),
        TRAFFIC.callers().to_string(),
        size.length.as_millis().to_string(),
    ];
    arguments.extend_from_slice(&addresses);
    let [mut ours, mut tonic, mut grpc_go] = [const { Vec::new() }; 3];
    for _ in 0..size.rounds {
        let micros = |variant| {
            call(variant, size, control.hello(), &addresses, keys)
                .map(|measured| measured.cpu_micros_per_rpc)
        };
        ours.push(micros(Variant::Oxds)?);
        tonic.push(micros(Variant::BalanceList)?);
        let part = Part::start_program_measuring(&peer, Processors::Beside, &arguments)?;
        grpc_go.push(part.finish::<f64>()?);
    }
    let ours = median(ours);
    let peers = [
        (
            Variant::BalanceList.name(),
            median(tonic),
            Target::AtMost(TARGET),
        ),
        ("grpc-go", median(grpc_go), Target::None),
    ];
    for (name, value, target) in peers {
        table.row(&Row {
            id: "S-R2",
            what: "CPU per RPC over mTLS, 32 in flight (us)",
            ours,
            peer: (name, value),
            target,
        });
    }
    Ok(())
}

fn servers(keys: &Keys, size: Size, table: &mut Table) -> Result<(), String> {
    let servers = Running::all(keys.folder.path())?;
    let mut results = vec![Vec::new(); servers.len()];
    for _ in 0..size.rounds {
        for (server, results) in servers.iter().zip(&mut results) {
            let before = server.part.cpu()?;
            let address = [server.part.hello().to_owned()];
            let measured = call(Variant::BalanceList, size, "", &address, keys)?;
            let cpu = server.part.cpu()? - before;
            results.push(cpu.as_secs_f64() * 1e6 / measured.calls as f64);
        }
    }
    let what = ("S-R3", "CPU of the server per RPC over mTLS (us)");
    compare(table, what, Target::AtMost(TARGET), &servers, results);
    Ok(())
}

const TLS_OF_CLUSTER: &str = r#"transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_provider_instance: { instance_name: keys }
      validation_context:
        ca_certificate_provider_instance: { instance_name: keys }
        match_typed_subject_alt_names: [ { san_type: IP_ADDRESS, matcher: { exact: 127.0.0.1 } } ]
"#;

//! A client of a cluster of many endpoints, with the processes around it.

use std::time::{Duration, Instant};

use crate::control::calls::{self, Client};
use crate::control::resources;
use crate::roles::{Layout, Part, Processors, Role};

/// Time until the first call of a client.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Time without a new connection after which a client connects to no more endpoints.
const QUIET: Duration = Duration::from_secs(5);

/// Pause between two looks at a client that settles, and their number. grpc-go makes a picker over all endpoints for
/// each that connects, which takes it a minute with 10,000.
const PAUSE: Duration = Duration::from_millis(200);
const SETTLING: u32 = 900;

/// A client of a cluster, with the processes around it.
pub(super) struct Rig {
    pub(super) client: Part,
    pub(super) control: Part,
    /// The backend of the endpoints as they are at first.
    first: Part,
    /// The backend of those that have changed.
    pub(super) changed: Part,
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Starts a client that calls at `rate`, and waits for its first call.
    pub(super) fn start(
        client: Client,
        count: usize,
        layout: Layout,
        rate: u32,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let yaml =
            resources::listener("routes") + &resources::routes(1) + &resources::eds_cluster();
        std::fs::write(folder.path().join("bench.yaml"), yaml).map_err(|e| e.to_string())?;
        let backend = || Part::start_on(Processors::Beside, &Role::Backend);
        let (first, changed) = (backend()?, backend()?);
        let endpoints = Role::Endpoints {
            folder: folder.path().to_owned(),
            count,
            layout,
            first: port(&first)?,
            changed: port(&changed)?,
        };
        let control = Part::start_on(Processors::Beside, &endpoints)?;
        let mut client_part = client.start(&[control.hello()], rate)?;
        calls::until(&mut client_part, 0, TIMEOUT)?
            .ok_or_else(|| format!("{}: no call within {TIMEOUT:?}", client.name()))?;
        Ok(Self {
            client: client_part,
            control,
            first,
            changed,
            _folder: folder,
        })
    }

    /// Waits until the work that follows the connections has ended: the client uses less than a quarter of its
    /// processor.
    pub(super) fn settle(&self) -> Result<(), String> {
        for _ in 0..SETTLING {
            let before = self.client.cpu()?;
            std::thread::sleep(PAUSE);
            if self.client.cpu()? - before < PAUSE / 4 {
                return Ok(());
            }
        }
        Err(format!("a client still works after {:?}", PAUSE * SETTLING))
    }

    /// Waits until the client has connected to this many endpoints, or connects to no more of them. Returns their
    /// number.
    pub(super) fn connected(&mut self, count: usize) -> Result<usize, String> {
        let (mut last, mut seen) = (Instant::now(), 0);
        while seen < count && last.elapsed() < QUIET {
            let now = accepted(&mut self.first)?;
            if now > seen {
                (last, seen) = (Instant::now(), now);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(seen)
    }
}

/// Returns the number of connections that a backend has accepted.
pub(super) fn accepted(backend: &mut Part) -> Result<usize, String> {
    backend.send_line("accepted")?;
    let line = backend.answer()?;
    line.parse().map_err(|_| format!("not a number: {line}"))
}

fn port(backend: &Part) -> Result<u16, String> {
    let address = backend.hello();
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    port.ok_or_else(|| format!("no address: {address}"))
}

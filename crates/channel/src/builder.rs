//! How a channel is made.

use std::str::FromStr;
use std::sync::Arc;

use http::uri::Authority;
use oxds_client::bootstrap::BootstrapError;
use oxds_client::load::LoadReporter;
use oxds_client::{Bootstrap, ClientPool, ConfigWatch, Target, TargetError};
use oxds_core::resolve::Resolution;

use crate::channel::XdsChannel;
use crate::driver::{Driver, Source};
use crate::pool::Pool;
use crate::routing::Shared;

/// Makes an [`XdsChannel`]; from [`XdsChannel::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    target: String,
    clients: Option<ClientPool>,
    pool: Option<Pool>,
    report_picks: bool,
}

/// Why a channel could not be made. What goes wrong later, such as a control plane that does not
/// answer, is told in the status of RPCs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The target is no xDS target, or names an authority that the bootstrap does not know.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No bootstrap was given, and the environment has none that can be used (C-3).
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The channel's task needs a tokio runtime.
    #[error("an xds channel must be built inside a tokio runtime")]
    NoRuntime,
}

impl Builder {
    pub(crate) fn new(target: String) -> Self {
        Self {
            target,
            clients: None,
            pool: None,
            report_picks: false,
        }
    }

    /// Asks the control plane of this bootstrap, whatever the environment says (C-4). Channels that
    /// are to share xDS clients share a [`ClientPool`] instead.
    pub fn bootstrap(self, bootstrap: Bootstrap) -> Self {
        self.clients(ClientPool::new(bootstrap))
    }

    /// Shares xDS clients with others. Without it, those of the process are used, whose bootstrap is
    /// in `GRPC_XDS_BOOTSTRAP` (a path) or `GRPC_XDS_BOOTSTRAP_CONFIG` (JSON).
    pub fn clients(mut self, clients: ClientPool) -> Self {
        self.clients = Some(clients);
        self
    }

    /// Shares connections with the other channels of a pool. Without it, all channels of the process
    /// that are built without one share theirs.
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Whether each response tells where it came from, as an `Arc<`[`Picked`](crate::Picked)`>` in
    /// its extensions. Off by default: extensions cost three allocations per RPC.
    pub fn report_picks(mut self, report: bool) -> Self {
        self.report_picks = report;
        self
    }

    /// The channel. It asks for its configuration at once, and connects as soon as it has it.
    ///
    /// # Errors
    /// [`BuildError`]. That a control plane or a backend cannot be reached is none.
    pub fn build(self) -> Result<XdsChannel, BuildError> {
        let target = Target::parse(&self.target)?;
        let clients = match &self.clients {
            Some(clients) => clients.clone(),
            None => ClientPool::from_env()?,
        };
        in_runtime()?;
        let configs = ConfigWatch::new(&clients, &target)?;
        let channel = self.with_source(configs)?;
        channel.show(clients.channelz());
        Ok(channel)
    }

    /// A channel whose configurations come from `source`.
    pub(crate) fn with_source(self, source: impl Source) -> Result<XdsChannel, BuildError> {
        let target = Target::parse(&self.target)?;
        let runtime = in_runtime()?;
        let shared = Arc::new(Shared::new(
            &self.target,
            authority(&target),
            self.report_picks,
        ));
        let pool = self.pool.unwrap_or_else(Pool::of_process);
        let loads = source.load_reporter();
        let driver = Driver::new(Arc::clone(&shared), pool, loads.clone());
        let task = runtime.spawn(driver.run(source));
        Ok(XdsChannel::new(shared, task, loads))
    }
}

impl Source for ConfigWatch {
    fn next(&mut self) -> impl Future<Output = Resolution> + Send {
        Self::next(self)
    }

    fn load_reporter(&self) -> Option<LoadReporter> {
        Some(Self::load_reporter(self).clone())
    }
}

fn in_runtime() -> Result<tokio::runtime::Handle, BuildError> {
    tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)
}

/// `:authority` (C-41). The `http` crate has no percent-encoding in an authority, so what needs it
/// becomes `_`; virtual hosts are chosen by the encoded name all the same.
fn authority(target: &Target) -> Authority {
    let encoded = target.data_plane_authority();
    let plain: String = encoded.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    Authority::from_str(&encoded)
        .or_else(|_| Authority::from_str(&plain))
        .unwrap_or(Authority::from_static("xds"))
}

//! Builder of channels.

use std::str::FromStr;
use std::sync::Arc;

use http::uri::Authority;
use oxds_client::bootstrap::BootstrapError;
use oxds_client::load::LoadReporter;
use oxds_client::metrics::Recorder;
use oxds_client::{Bootstrap, ClientPool, ConfigWatch, Target, TargetError};
use oxds_core::resolve::Resolution;
use oxds_core::resource::DnsTarget;

use crate::channel::XdsChannel;
use crate::driver::{ChannelDriver, XdsConfigSource};
use crate::memory::{CALL_LIMIT, CHANNEL_LIMIT, RetryMemory};
use crate::metrics::{ChannelMetrics, MethodFilter};
use crate::pool::Pool;
use crate::routing::ChannelShared;
use crate::security::{ChannelSecurity, XdsCredentials};

/// Builds an [`XdsChannel`]; from [`XdsChannel::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    target: String,
    clients: Option<ClientPool>,
    pool: Option<Pool>,
    report_picks: bool,
    wait_for_ready: bool,
    retries: bool,
    retry_memory: (usize, usize),
    credentials: XdsCredentials,
    recorder: Option<Arc<dyn Recorder>>,
    recorded_methods: Option<MethodFilter>,
}

/// Error of [`Builder::build`]. Later errors, such as a control plane that does not respond, are in the
/// status of RPCs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The target is not an xDS target, or names an authority that is not in the bootstrap.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No bootstrap was given, and the environment has no usable one (gRFC A27; C-3).
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The channel's task needs a tokio runtime.
    #[error("no tokio runtime: an xDS channel must be built inside one")]
    NoRuntime,
}

impl Builder {
    pub(crate) fn new(target: String) -> Self {
        Self {
            target,
            clients: None,
            pool: None,
            report_picks: false,
            wait_for_ready: false,
            retries: true,
            retry_memory: (CALL_LIMIT, CHANNEL_LIMIT),
            credentials: XdsCredentials::default(),
            recorder: None,
            recorded_methods: None,
        }
    }

    /// Uses the control planes of this bootstrap and ignores the environment (C-4). The channel gets
    /// xDS clients of its own; to share them between channels, use [`clients`](Self::clients).
    pub fn bootstrap(self, bootstrap: Bootstrap) -> Self {
        self.clients(ClientPool::new(bootstrap))
    }

    /// Shares the xDS clients of this pool. By default the channel uses the process's clients, whose
    /// bootstrap is in `GRPC_XDS_BOOTSTRAP` (a path) or `GRPC_XDS_BOOTSTRAP_CONFIG` (JSON).
    pub fn clients(mut self, clients: ClientPool) -> Self {
        self.clients = Some(clients);
        self
    }

    /// Sets the credentials of the connections to endpoints. The default is plaintext for clusters without a TLS
    /// configuration, and TLS for those with one (gRFC A29).
    pub fn credentials(mut self, credentials: XdsCredentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Shares connections to backends with the other channels of this pool. By default the channel uses
    /// one pool of the process.
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Adds an `Arc<`[`Picked`](crate::Picked)`>` with the endpoint to the extensions of each response.
    /// Off by default, because extensions cost three allocations per RPC.
    pub fn report_picks(mut self, report: bool) -> Self {
        self.report_picks = report;
        self
    }

    /// Makes RPCs wait until they can be sent, instead of failing while the control plane or all endpoints
    /// are unreachable: for a service that starts beside its control plane. A
    /// [`WaitForReady`](crate::WaitForReady) in the extensions of a request decides for that RPC. Off by
    /// default, as in gRPC.
    pub fn wait_for_ready(mut self, wait: bool) -> Self {
        self.wait_for_ready = wait;
        self
    }

    /// Turns retries by policy (gRFC A44) on or off; on by default. Transparent retries of requests that no backend has
    /// processed stay on.
    pub fn retries(mut self, retries: bool) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the limits, in bytes, of the memory in which request messages are kept for retries by policy: of one RPC,
    /// and of all RPCs of the channel. An RPC above a limit is sent and not retried. Default: 256 KiB and 16 MiB.
    pub fn retry_buffer(mut self, per_call: usize, per_channel: usize) -> Self {
        self.retry_memory = (per_call, per_channel);
        self
    }

    /// Records metrics of the channel. The default is the recorder of its [clients](ClientPool::with_recorder); without
    /// one, nothing is measured. [`docs/metrics.md`] describes the metrics.
    ///
    /// [`docs/metrics.md`]: https://github.com/oxds/oxds/blob/main/docs/metrics.md
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Decides which methods are recorded by their names (`package.Service/Method`) in `grpc.method`, besides those of
    /// generated clients. All others are recorded as `other`, because their number may be unlimited (gRFC A66).
    ///
    /// Clients that tonic generates declare their methods by a [`GrpcMethod`](tonic::GrpcMethod) in the extensions of
    /// the request. The default is that no other method is recorded by its name. The filter is called on each RPC of
    /// such a method.
    pub fn method_attribute_filter(
        mut self,
        is_recorded: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.recorded_methods = Some(MethodFilter(Arc::new(is_recorded)));
        self
    }

    /// Builds the channel. It subscribes to its configuration at once, and connects to the endpoints
    /// when it has one. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`BuildError`]. An unreachable control plane or backend is not an error here: the status of the
    /// RPCs reports it.
    pub fn build(mut self) -> Result<XdsChannel, BuildError> {
        let target = Target::parse(&self.target)?;
        let clients = match &self.clients {
            Some(clients) => clients.clone(),
            None => ClientPool::from_env()?,
        };
        in_runtime()?;
        self.recorder = self.recorder.or_else(|| clients.recorder().cloned());
        let configs = ConfigWatch::new(&clients, &target)?;
        self.clients = Some(clients.clone());
        let channel = self.with_source(configs)?;
        channel.register(clients.channelz());
        Ok(channel)
    }

    /// Builds a channel that takes its configurations from `source`.
    pub(crate) fn with_source(
        self,
        source: impl XdsConfigSource,
    ) -> Result<XdsChannel, BuildError> {
        let target = Target::parse(&self.target)?;
        let runtime = in_runtime()?;
        let mut shared = ChannelShared::new(&self.target, authority(&target));
        shared.report_picks = self.report_picks;
        shared.wait_for_ready = self.wait_for_ready;
        let (per_call, per_channel) = self.retry_memory;
        shared.retry_memory = self
            .retries
            .then(|| RetryMemory::new(per_call, per_channel));
        let metrics = self.recorder.map(|recorder| {
            ChannelMetrics::new(recorder, &target.to_string(), self.recorded_methods)
        });
        shared.metrics = metrics.map(Arc::new);
        let shared = Arc::new(shared);
        let pool = self.pool.unwrap_or_else(Pool::of_process);
        let loads = source.load_reporter();
        let security = ChannelSecurity::new(
            self.credentials,
            shared.authority.host(),
            #[cfg(feature = "tls")]
            self.clients.as_ref().map(ClientPool::bootstrap),
        );
        let driver = ChannelDriver::new(Arc::clone(&shared), pool, security, loads.clone());
        let task = runtime.spawn(driver.run(source));
        Ok(XdsChannel::new(shared, task, loads))
    }
}

impl XdsConfigSource for ConfigWatch {
    fn next(&mut self) -> impl Future<Output = Resolution> + Send {
        Self::next(self)
    }

    fn look_up_again(&mut self, host: &DnsTarget) {
        Self::look_up_again(self, host);
    }

    fn load_reporter(&self) -> Option<LoadReporter> {
        Some(Self::load_reporter(self).clone())
    }
}

fn in_runtime() -> Result<tokio::runtime::Handle, BuildError> {
    tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)
}

/// Returns the `:authority` of requests.
fn authority(target: &Target) -> Authority {
    // gRFC A47: the data plane authority is the percent-encoded path of the target (C-41). The `http`
    // crate accepts no percent-encoding in an authority, so other characters become `_`. Virtual hosts
    // are still chosen by the encoded name.
    let encoded = target.data_plane_authority();
    let plain: String = encoded.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    Authority::from_str(&encoded)
        .or_else(|_| Authority::from_str(&plain))
        .unwrap_or(Authority::from_static("xds"))
}

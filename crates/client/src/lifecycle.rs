//! Checks of the fields of received resources: deprecated, unfinished and unknown ones (V-44, V-45, V-58, V-59).
//!
//! ```text
//!  response ──► FieldChecks (every type, by descriptors) ──► parsers of the type ──► watchers
//!                   │ disallowed, or unknown and rejected: NACK
//!                   └ warned: a log line per field, counters
//! ```
//!
//! The checks need the descriptors of the API and reflection, so they are a feature, `lifecycle`, which is off by
//! default: a channel reads only the fields that it obeys, and must stay small.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use oxds_core::resource::{Invalid, ResourceCheck};
use oxds_types::codec::{self, Options};
use oxds_types::error::Reason;
use oxds_types::lifecycle::Policy;
use oxds_types::{Error, ResourceType};

use crate::metrics::{DEPRECATED_FEATURE_USE, DYNAMIC_UNKNOWN_FIELDS, Recorder, WIP_PROTOS};

/// Fields that are logged. A control plane could invent more.
const MAX_LOGGED: usize = 1_000;

/// Checks of the fields of received resources. Clones share counters and policy.
///
/// Set them as [`Options::resource_check`](crate::Options::resource_check):
///
/// ```
/// use oxds_client::lifecycle::{FieldChecks, UnknownFields};
/// use oxds_client::{Bootstrap, Options, XdsClient};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let checks = FieldChecks::new(UnknownFields::Warn);
/// let options = Options::default().with_resource_check(checks.resource_check());
/// let bootstrap = Bootstrap::builder("127.0.0.1:18000").node_id("me").build()?;
/// let client = XdsClient::with_options(bootstrap.into(), options);
/// assert_eq!(checks.counts().deprecated, 0);
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FieldChecks {
    shared: Arc<Shared>,
}

struct Shared {
    unknown: UnknownFields,
    options: ArcSwap<Options>,
    deprecated: AtomicU64,
    work_in_progress: AtomicU64,
    unknown_fields: AtomicU64,
    logged: Mutex<HashSet<String>>,
    recorder: Option<Arc<dyn Recorder>>,
}

/// Handling of unknown fields in received resources (Envoy: dynamic configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum UnknownFields {
    /// They are accepted, counted and logged: a control plane may be newer than this client.
    #[default]
    Warn,
    /// They are accepted, and neither counted nor logged.
    Ignore,
    /// The resource is NACKed.
    Reject,
}

/// Numbers of fields in received resources. A resource that is received again unchanged does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldCounts {
    /// Uses of deprecated fields and enum values that are allowed (Envoy: `runtime.deprecated_feature_use`).
    pub deprecated: u64,
    /// Uses of fields, messages and files that are work in progress (Envoy: `server.wip_protos`).
    pub work_in_progress: u64,
    /// Unknown fields that were accepted (Envoy: `server.dynamic_unknown_fields`).
    pub unknown_fields: u64,
}

impl FieldChecks {
    /// Creates checks with the default policy: annotations alone decide about deprecated fields.
    #[must_use]
    pub fn new(unknown: UnknownFields) -> Self {
        Self::recorded(unknown, None)
    }

    /// Creates such checks, which also record their numbers as metrics: [`DEPRECATED_FEATURE_USE`], [`WIP_PROTOS`] and
    /// [`DYNAMIC_UNKNOWN_FIELDS`].
    #[must_use]
    pub fn with_recorder(unknown: UnknownFields, recorder: Arc<dyn Recorder>) -> Self {
        Self::recorded(unknown, Some(recorder))
    }

    fn recorded(unknown: UnknownFields, recorder: Option<Arc<dyn Recorder>>) -> Self {
        let mut options = Options::default();
        options.allow_unknown_fields = unknown != UnknownFields::Reject;
        Self {
            shared: Arc::new(Shared {
                unknown,
                options: ArcSwap::from_pointee(options),
                deprecated: AtomicU64::new(0),
                work_in_progress: AtomicU64::new(0),
                unknown_fields: AtomicU64::new(0),
                logged: Mutex::default(),
                recorder,
            }),
        }
    }

    /// Sets the policy for deprecated fields. It holds for resources that are received from now on.
    pub fn set_policy(&self, policy: Policy) {
        let mut options = Options::clone(&self.shared.options.load());
        options.policy = policy;
        self.shared.options.store(Arc::new(options));
    }

    /// Returns the check for the options of a client.
    #[must_use]
    pub fn resource_check(&self) -> ResourceCheck {
        let shared = Arc::clone(&self.shared);
        ResourceCheck::new(move |resource_type, value| shared.check(resource_type, value))
    }

    /// Returns the numbers so far.
    #[must_use]
    pub fn counts(&self) -> FieldCounts {
        FieldCounts {
            deprecated: self.shared.deprecated.load(Relaxed),
            work_in_progress: self.shared.work_in_progress.load(Relaxed),
            unknown_fields: self.shared.unknown_fields.load(Relaxed),
        }
    }
}

impl Shared {
    fn check(&self, resource_type: &ResourceType, value: &[u8]) -> Result<(), Invalid> {
        let options = self.options.load();
        let message = resource_type.message();
        let warnings =
            codec::inspect(message, value, &options).map_err(|errors| invalid(&errors))?;
        for warning in &warnings {
            self.warning(resource_type, warning);
        }
        Ok(())
    }

    fn warning(&self, resource_type: &ResourceType, warning: &Error) {
        let (counter, instrument) = match &warning.reason {
            Reason::Deprecated(_) => (&self.deprecated, &DEPRECATED_FEATURE_USE),
            Reason::WorkInProgress(_) => (&self.work_in_progress, &WIP_PROTOS),
            _ if self.unknown == UnknownFields::Ignore => return,
            _ => (&self.unknown_fields, &DYNAMIC_UNKNOWN_FIELDS),
        };
        counter.fetch_add(warning.count as u64, Relaxed);
        if let Some(recorder) = &self.recorder {
            recorder.add(instrument, &[resource_type.message()], warning.count as u64);
        }
        // One line per field, whatever resources use it.
        let text = warning.reason.to_string();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < MAX_LOGGED && logged.insert(text) {
            let (reason, path) = (&warning.reason, &warning.path);
            tracing::warn!(target: "oxds::fields", %resource_type, path, "{reason}");
        }
    }
}

/// Returns the text of the NACK: the first error, and the number of others.
fn invalid(errors: &[Error]) -> Invalid {
    let Some(first) = errors.first() else {
        return Invalid::new("is invalid");
    };
    let more = match errors.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more errors)"),
    };
    let invalid = Invalid::new(format!("{}{more}", first.reason));
    match first.path.as_str() {
        "" => invalid,
        path => invalid.at(path),
    }
}

impl fmt::Debug for FieldChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldChecks")
            .field("unknown", &self.shared.unknown)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::cluster::v3::cluster::EdsClusterConfig;
    use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
    use envoy_types::pb::envoy::config::core::v3::{
        ApiConfigSource, ConfigSource, Http2ProtocolOptions,
    };
    use oxds_types::lifecycle::Clock;
    use oxds_types::runtime::{Layer, Snapshot, Source};
    use prost::Message as _;

    use super::*;
    use crate::metrics::Instrument;

    #[expect(deprecated, reason = "the test is about deprecated fields")]
    fn deprecated() -> Vec<u8> {
        let cluster = Cluster {
            name: "a".to_owned(),
            http2_protocol_options: Some(Http2ProtocolOptions::default()),
            ..Cluster::default()
        };
        cluster.encode_to_vec()
    }

    /// A cluster whose `api_type` is unset: its default is disallowed.
    fn disallowed() -> Vec<u8> {
        let config = ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(
                ApiConfigSource::default(),
            )),
            ..ConfigSource::default()
        };
        let cluster = Cluster {
            name: "a".to_owned(),
            eds_cluster_config: Some(EdsClusterConfig {
                eds_config: Some(config),
                ..EdsClusterConfig::default()
            }),
            ..Cluster::default()
        };
        cluster.encode_to_vec()
    }

    #[test]
    fn v44_received_deprecated_fields_are_counted() {
        let checks = FieldChecks::new(UnknownFields::Warn);
        let check = checks.resource_check();
        for _ in 0..2 {
            assert_eq!(check.check(&ResourceType::CLUSTER, &deprecated()), Ok(()));
        }
        assert_eq!(checks.counts().deprecated, 2);
        assert_eq!(
            checks.shared.logged.lock().unwrap().len(),
            1,
            "one log line per field"
        );
    }

    /// A recorder that keeps every addition as a line.
    #[derive(Debug, Default)]
    struct Recorded(Mutex<Vec<String>>);

    impl Recorder for Recorded {
        fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
            let line = format!("{} {} {by}", counter.name, labels.join(","));
            self.0.lock().unwrap().push(line);
        }

        fn set(&self, _: &'static Instrument, _: &[&str], _: i64) {}

        fn end(&self, _: &'static Instrument, _: &[&str]) {}
    }

    #[test]
    fn v44_v58_v59_received_fields_are_metrics() {
        let kept = Arc::new(Recorded::default());
        let recorder = Arc::clone(&kept) as Arc<dyn Recorder>;
        let check = FieldChecks::with_recorder(UnknownFields::Warn, recorder).resource_check();
        let unknown = b"\x0a\x01a\x90\x4d\x01";
        let unfinished = wip();
        for value in [&deprecated()[..], unknown, &unfinished] {
            assert_eq!(check.check(&ResourceType::CLUSTER, value), Ok(()));
        }
        let of = |name: &str| format!("oxds.xds_client.{name} envoy.config.cluster.v3.Cluster 1");
        let names = [
            "deprecated_feature_use",
            "dynamic_unknown_fields",
            "wip_protos",
        ];
        assert_eq!(*kept.0.lock().unwrap(), names.map(of));
    }

    /// A cluster with a work-in-progress field in an extension.
    fn wip() -> Vec<u8> {
        use oxds_types::codec::{Format, decode};
        let text = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: a
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: { http2_protocol_options: { use_oghttp2_codec: true } }
";
        let options = Options::default();
        let decoded = decode("a.yaml".as_ref(), Format::Yaml, text.as_bytes(), &options);
        decoded.unwrap().remove(0).any.value.to_vec()
    }

    #[test]
    fn v45_received_disallowed_field_is_invalid_with_its_key() {
        let checks = FieldChecks::new(UnknownFields::Warn);
        let check = checks.resource_check();
        let invalid = check
            .check(&ResourceType::CLUSTER, &disallowed())
            .unwrap_err();
        assert_eq!(
            invalid.path,
            "eds_cluster_config.eds_config.api_config_source.api_type"
        );
        let key = "envoy.deprecated_features:envoy.config.core.v3.ApiConfigSource.DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE";
        assert!(
            invalid.rule.contains(&format!("\"{key}\": true")),
            "{invalid}"
        );

        let layer = Layer::new("test", Source::Static).with(key, true).unwrap();
        checks.set_policy(Policy::new(
            Snapshot::from_layers(vec![layer]),
            Clock::default(),
        ));
        assert_eq!(check.check(&ResourceType::CLUSTER, &disallowed()), Ok(()));
        assert_eq!(checks.counts().deprecated, 1);
    }

    #[test]
    fn v58_unknown_dynamic_fields_are_counted_ignored_or_invalid() {
        // Cluster { name: "a", 1234: 1 }
        let unknown = b"\x0a\x01a\x90\x4d\x01";
        let check = |handling| {
            let checks = FieldChecks::new(handling);
            let checked = checks
                .resource_check()
                .check(&ResourceType::CLUSTER, unknown);
            (checked, checks.counts().unknown_fields)
        };
        assert_eq!(check(UnknownFields::Warn), (Ok(()), 1));
        assert_eq!(check(UnknownFields::Ignore), (Ok(()), 0));
        let (rejected, _) = check(UnknownFields::Reject);
        let rejected = rejected.unwrap_err().to_string();
        assert!(
            rejected.contains("unknown field `1234` in envoy.config.cluster.v3.Cluster"),
            "{rejected}"
        );
    }

    /// Given a file source with a disallowed field: without checks it is used, as from every source; with checks it is
    /// invalid with its key, until the policy allows it.
    #[cfg(feature = "file")]
    #[tokio::test]
    async fn v45_file_source_leaves_the_decision_to_the_check() {
        use crate::source::File;
        use crate::{Bootstrap, Options, Update, XdsClient};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cds.yaml");
        let text = "resources:
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
  eds_cluster_config: { eds_config: { api_config_source: { transport_api_version: V3 } } }
";
        std::fs::write(&path, text).unwrap();
        let source = crate::Source::from(File::new(&path));
        let first = async |resource_check| {
            let bootstrap = Bootstrap::without_servers().node_id("me").build().unwrap();
            let options = Options::default().with_resource_check(resource_check);
            let client = XdsClient::with_options(bootstrap.into(), options);
            let watch = client.watch_raw_from(&source, ResourceType::CLUSTER, "a");
            watch.unwrap().next().await.unwrap()
        };
        assert!(matches!(first(None).await, Update::Changed(Ok(_))));
        let checks = FieldChecks::new(UnknownFields::Warn);
        let Update::Changed(Err(error)) = first(Some(checks.resource_check())).await else {
            panic!("a disallowed field was accepted");
        };
        assert!(
            error.to_string().contains("envoy.deprecated_features:"),
            "{error}"
        );
        checks.set_policy(Policy::undecided());
        let allowed = first(Some(checks.resource_check())).await;
        assert!(matches!(allowed, Update::Changed(Ok(_))), "{allowed:?}");
    }
}

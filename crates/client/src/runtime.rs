//! RTDS: layers of a runtime that a control plane sends (V-47).
//!
//! ```text
//!  control plane ── envoy.service.runtime.v3.Runtime ──► watch ──► Runtime::replace
//!                                                          └ error ──► Runtime::failed, the last values stay
//! ```

use envoy_types::pb::envoy::service::runtime::v3::Runtime as RuntimeResource;
use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::resource::{Invalid, ResourceParser};
use oxds_types::ResourceType;
use oxds_types::runtime::{Layer, LayerError, Runtime, Source as LayerSource, UnknownLayer};
use tracing::{info, warn};

use crate::handle::Watch;
use crate::handle::XdsClient;
use crate::source::{Source, SourceError};
use crate::update::Update;

/// A layer that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowRuntimeError {
    /// The runtime has no layer of this name.
    #[error(transparent)]
    Layer(#[from] UnknownLayer),
    /// The source cannot deliver runtime resources.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl XdsClient {
    /// Follows one layer of a runtime over RTDS: the resource of this name replaces the values of the layer whenever it
    /// changes. A resource with an invalid value is NACKed. While the control plane is unreachable, or its resource is
    /// invalid, the last values stay; if the resource is deleted, its keys are removed.
    ///
    /// The returned future ends when the runtime of the client stops. Dropping it ends the watch; the values stay.
    ///
    /// ```no_run
    /// use oxds_client::{Source, XdsClient};
    /// use oxds_types::runtime::{Layer, Runtime, Source as LayerSource};
    ///
    /// # async fn example(client: XdsClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let layer = Layer::new("rtds", LayerSource::Rtds("shop".into()));
    /// let runtime = Runtime::new(vec![layer]).map_err(|name| format!("two layers {name}"))?;
    /// tokio::spawn(client.follow_runtime(&Source::ads(), &runtime, "rtds", "shop")?);
    /// let is_on = runtime.snapshot().flag("shop.new_checkout").unwrap_or(false);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The runtime has no such layer, or the source cannot deliver the resource.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn follow_runtime(
        &self,
        source: &Source,
        runtime: &Runtime,
        layer: &str,
        resource: &str,
    ) -> Result<impl Future<Output = ()> + Send + use<>, FollowRuntimeError> {
        runtime.knows(layer)?;
        let client = self.of_source(source, &ResourceType::RUNTIME)?;
        client.register(ResourceParser::checked(|resource: &RuntimeResource| {
            // The names do not matter for a check.
            read(&Followed::new("", ""), resource)
                .map(drop)
                .map_err(|error| Invalid::new(error.to_string()))
        }));
        let watch = client.watch(resource);
        let followed = Followed::new(layer, resource);
        Ok(follow(watch, runtime.clone(), followed))
    }
}

/// A layer and the resource that it comes from.
struct Followed {
    layer: String,
    resource: String,
}

impl Followed {
    fn new(layer: &str, resource: &str) -> Self {
        Self {
            layer: layer.to_owned(),
            resource: resource.to_owned(),
        }
    }

    fn empty(&self) -> Layer {
        let source = LayerSource::Rtds(self.resource.clone());
        Layer::new(&*self.layer, source)
    }
}

fn read(followed: &Followed, resource: &RuntimeResource) -> Result<Layer, LayerError> {
    match &resource.layer {
        Some(values) => followed.empty().with_struct(values),
        None => Ok(followed.empty()),
    }
}

async fn follow(mut watch: Watch<RuntimeResource>, runtime: Runtime, followed: Followed) {
    while let Some(update) = watch.next().await {
        let layer = &followed.layer;
        match update {
            Update::Changed(Ok(resource)) => match read(&followed, &resource) {
                Ok(values) => replace(&runtime, values),
                Err(error) => failed(&runtime, layer, &error.to_string()),
            },
            Update::Changed(Err(error)) if is_deleted(&error) => {
                warn!(target: "oxds::runtime", %layer, resource = %followed.resource, "runtime resource does not exist, its keys are removed");
                replace(&runtime, followed.empty());
            }
            Update::Changed(Err(error)) | Update::Ambient(Some(error)) => {
                failed(&runtime, layer, &error.to_string());
            }
            // The resource is current again, so the last error is over.
            Update::Ambient(None) => {
                let layers = runtime.layers().into_iter().map(|state| state.layer);
                let current = layers.into_iter().find(|current| current.name() == layer);
                if let Some(current) = current {
                    replace(&runtime, current);
                }
            }
        }
    }
}

fn is_deleted(error: &WatchError) -> bool {
    error.reason == WatchErrorReason::DoesNotExist
}

fn replace(runtime: &Runtime, values: Layer) {
    let (layer, keys) = (values.name().to_owned(), values.values().len());
    // The layer existed at the start, and layers are not removed.
    if runtime.replace(values) == Ok(true) {
        info!(target: "oxds::runtime", %layer, keys, "runtime changed");
    }
}

fn failed(runtime: &Runtime, layer: &str, error: &str) {
    if runtime.failed(layer, error) {
        warn!(target: "oxds::runtime", %layer, %error, "runtime layer not loaded, keeping its last values");
    }
}

//! An HTTP filter of the program: it adds a header to every RPC, whose value the control plane configures.
//!
//! ```text
//! cargo run -p oxds-channel --features testing --example http_filter
//! ```
//!
//! The listener of the example has the filter as a control plane would send it:
//!
//! ```yaml
//! http_filters:
//!   - name: tag
//!     typed_config:
//!       "@type": type.googleapis.com/xds.type.v3.TypedStruct
//!       type_url: type.googleapis.com/example.Tag
//!       value: {color: blue}
//! ```

#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use http::{HeaderMap, HeaderValue};
use oxds_channel::testing::{Call, EchoBackend, Script, call, cluster, config};
use oxds_channel::{
    ExtensionConfig, Extensions, FilterFuture, FilterRequest, HttpFilter, HttpFilters, Invalid,
    Pool, XdsChannel,
};
use oxds_core::resource::HttpFilter as ListenerFilter;

/// Adds `x-color` to every RPC.
struct Tag(HeaderValue);

impl Tag {
    /// Reads the configuration. An error is the NACK of the listener.
    fn from_config(config: &ExtensionConfig) -> Result<Self, Invalid> {
        let color = config.text("color").unwrap_or_default();
        match HeaderValue::from_str(color) {
            Ok(color) if !color.is_empty() => Ok(Self(color)),
            _ => Err(Invalid::new("must be the value of a header").at("color")),
        }
    }
}

impl HttpFilter for Tag {
    fn request<'a>(&'a self, request: FilterRequest<'a>) -> FilterFuture<'a> {
        request.headers.insert("x-color", self.0.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Makes a call through the filter, and returns the header that the backend got.
pub(crate) async fn run(color: &str) -> Result<String, Box<dyn Error>> {
    // A program gives these to its clients: `Options { extensions, .. }` of `ClientPool::with_options`.
    let extensions = Extensions::default().with_filter("example.Tag", Tag::from_config);
    // A control plane sends this in the listener.
    let tag = ExtensionConfig::of_texts("example.Tag", [("color", color)]);
    let tag = ListenerFilter::added("tag", &tag, &extensions)?;

    let backend = EchoBackend::start().await?;
    let builder = XdsChannel::builder("xds:///shop").pool(Pool::new());
    let (script, channel) = Script::channel(builder)?;
    let shop = cluster("shop", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(&[("", &[(1, 0)])], vec![shop]).with_filters(vec![tag]));
    let keep = ("x-keep".parse()?, HeaderValue::from_static(""));
    let request = Call {
        headers: HeaderMap::from_iter([keep]),
        ..Call::default()
    };
    call(&channel, request).await?;
    Ok(backend.request_headers()["x-color"].to_str()?.to_owned())
}

#[allow(dead_code, reason = "a test runs `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("the backend got x-color: {}", run("blue").await?);
    Ok(())
}

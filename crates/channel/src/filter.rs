//! HTTP filters of the program (gRFC A39).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Extensions as HttpExtensions, HeaderMap};
use oxds_core::resource::{ExtensionConfig, Extensions, Invalid};
use tonic::Status;

/// Future of [`HttpFilter::request`].
pub type FilterFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// An RPC before it is sent, as filters see it.
#[derive(Debug)]
#[non_exhaustive]
pub struct FilterRequest<'a> {
    /// Path of the method: `/package.Service/Method`.
    pub path: &'a str,
    /// Headers, which the filter may change. The route and the cluster are chosen already.
    pub headers: &'a mut HeaderMap,
    /// Extensions of the request.
    pub extensions: &'a mut HttpExtensions,
}

/// An HTTP filter that the program adds to the channel. One instance exists per configuration.
///
/// Filters run in the order of the listener's `http_filters`, once per RPC, before its first attempt; retries do not
/// run them again. Register the parser of its configuration with [`HttpFilters::with_filter`].
pub trait HttpFilter: Send + Sync + 'static {
    /// Handles an RPC before it is sent. It may change the headers, wait, or fail the RPC with a status, which no retry
    /// follows.
    ///
    /// # Cancel safety
    /// The future is dropped if the RPC is cancelled or its deadline is over.
    fn request<'a>(&'a self, request: FilterRequest<'a>) -> FilterFuture<'a>;

    /// Handles the headers of the response. Filters do this in the reverse order. It is not called for an RPC that
    /// failed without a response.
    fn response(&self, headers: &mut HeaderMap) {
        let _ = headers;
    }
}

/// Registration of HTTP filters in the extensions of a [`ClientPool`](crate::ClientPool).
///
/// ```
/// use oxds_channel::{FilterFuture, FilterRequest, HttpFilter, HttpFilters};
/// use oxds_channel::{Extensions, Options};
///
/// /// Adds a header to every RPC.
/// struct Tag(http::HeaderValue);
///
/// impl HttpFilter for Tag {
///     fn request<'a>(&'a self, request: FilterRequest<'a>) -> FilterFuture<'a> {
///         request.headers.insert("x-tag", self.0.clone());
///         Box::pin(std::future::ready(Ok(())))
///     }
/// }
///
/// // `typed_config` of the filter is a `TypedStruct` whose `type_url` is `example.Tag`.
/// let extensions = Extensions::default()
///     .with_filter("example.Tag", |_| Ok(Tag(http::HeaderValue::from_static("blue"))));
/// let options = Options::default().with_extensions(extensions);
/// # drop(options);
/// ```
pub trait HttpFilters: Sized {
    /// Adds a filter. `type_name` is the full name of its configuration's message, or the name in a `TypedStruct`.
    /// `parse` makes an instance of a configuration, of the listener or of a `typed_per_filter_config`, which replaces
    /// that of the listener as a whole.
    ///
    /// # Errors
    /// Of `parse`: the rule that the configuration breaks. Then the resource is NACKed.
    #[must_use]
    fn with_filter<F: HttpFilter>(
        self,
        type_name: &str,
        parse: impl Fn(&ExtensionConfig) -> Result<F, Invalid> + Send + Sync + 'static,
    ) -> Self;
}

impl HttpFilters for Extensions {
    fn with_filter<F: HttpFilter>(
        self,
        type_name: &str,
        parse: impl Fn(&ExtensionConfig) -> Result<F, Invalid> + Send + Sync + 'static,
    ) -> Self {
        self.with_http_filter(type_name, move |config| {
            let filter: Arc<dyn HttpFilter> = Arc::new(parse(config)?);
            Ok(Arc::new(AddedFilter(filter)))
        })
    }
}

/// Value that the parser of an added filter makes.
pub(crate) struct AddedFilter(pub(crate) Arc<dyn HttpFilter>);

impl fmt::Debug for AddedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddedFilter")
    }
}

//! How a channel is made.

use std::sync::Arc;

use http::uri::Authority;
use percent_encoding::AsciiSet;

use crate::channel::XdsChannel;
use crate::driver::{Driver, Source};
use crate::pool::Pool;
use crate::routing::Shared;

/// What RFC 3986 does not allow in an authority.
const RESERVED: &AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'[')
    .remove(b']');

/// Makes an [`XdsChannel`]; from [`XdsChannel::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    target: String,
    pool: Option<Pool>,
    report_picks: bool,
}

/// Why a channel could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Its task needs a tokio runtime.
    #[error("an xds channel must be built inside a tokio runtime")]
    NoRuntime,
    /// The target is not of the form `xds:///service` or `xds://authority/service`.
    #[error("{target:?} is no xds target: {reason}")]
    Target {
        /// What was given.
        target: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Builder {
    pub(crate) fn new(target: String) -> Self {
        Self {
            target,
            pool: None,
            report_picks: false,
        }
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

    /// A channel whose configurations come from `source`.
    pub(crate) fn with_source(self, source: impl Source) -> Result<XdsChannel, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let authority = authority(&self.target)?;
        let shared = Arc::new(Shared::new(&self.target, authority, self.report_picks));
        let pool = self.pool.unwrap_or_default();
        let driver = Driver::new(Arc::clone(&shared), pool);
        let task = runtime.spawn(driver.run(source));
        Ok(XdsChannel::new(shared, task.abort_handle()))
    }
}

/// The data-plane authority: the target's path without the leading slash, percent-encoded where an
/// authority needs it (C-41).
fn authority(target: &str) -> Result<Authority, BuildError> {
    let wrong = |reason| BuildError::Target {
        target: target.to_owned(),
        reason,
    };
    let rest = target
        .strip_prefix("xds:")
        .ok_or_else(|| wrong("its scheme is not xds"))?;
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.split_once('/').map_or("", |(_, path)| path),
        None => rest.strip_prefix('/').unwrap_or(rest),
    };
    if path.is_empty() {
        return Err(wrong("it names no service"));
    }
    let encoded = percent_encoding::utf8_percent_encode(path, RESERVED).to_string();
    // The http crate has no percent-encoding in an authority: what it cannot carry becomes `_`.
    let authority = Authority::try_from(encoded);
    let plain = || path.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    authority
        .or_else(|_| Authority::try_from(plain()))
        .map_err(|_| wrong("the service is no authority"))
}

//! Shared helpers of the tests.

use oxds_channel::testing::Script;
pub(crate) use oxds_channel::testing::expect::{
    SOON, backends, call_once, call_path, eventually, ready, spread,
};
use oxds_channel::{Builder, Pool, XdsChannel};

/// Returns a channel to `xds:///svc` with its own pool, which reports picks.
pub(crate) fn channel() -> (Script, XdsChannel) {
    Script::channel(builder()).unwrap()
}

/// Returns the builder of such a channel.
pub(crate) fn builder() -> Builder {
    XdsChannel::builder("xds:///svc")
        .pool(Pool::new())
        .report_picks(true)
}

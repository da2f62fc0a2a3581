//! Shared helpers of the tests.

use oxds_channel::testing::Script;
pub(crate) use oxds_channel::testing::expect::{
    SOON, backends, call_once, call_path, eventually, ready, spread,
};
use oxds_channel::{Pool, XdsChannel};

/// Returns a channel to `xds:///svc` with its own pool, which reports picks.
pub(crate) fn channel() -> (Script, XdsChannel) {
    let builder = XdsChannel::builder("xds:///svc")
        .pool(Pool::new())
        .report_picks(true);
    Script::channel(builder).unwrap()
}

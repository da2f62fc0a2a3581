//! Shared by the scenarios: channels to a control plane.

use std::net::SocketAddr;

pub(crate) use oxds_channel::testing::expect::{
    SOON, backends, call_once, call_path, eventually, ready, spread,
};
use oxds_channel::{Bootstrap, Pool, XdsChannel};
pub(crate) use oxds_testkit::folder_server::{FolderServer, Place, Yaml, one};

/// Returns a channel to `xds:///svc` with its own connections, which reports its picks.
pub(crate) fn channel_by(control_plane: SocketAddr) -> XdsChannel {
    let bootstrap = Bootstrap::builder(control_plane.to_string()).node_id("test-node");
    channel_of(bootstrap.build().unwrap())
}

pub(crate) fn channel_of(bootstrap: Bootstrap) -> XdsChannel {
    XdsChannel::builder("xds:///svc")
        .bootstrap(bootstrap)
        .pool(Pool::new())
        .report_picks(true)
        .build()
        .unwrap()
}

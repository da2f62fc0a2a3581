//! The client of etcd, against a scripted etcd.

mod calls;
mod faults;
mod leases;
mod members;
mod tls;
mod tokens;
mod watches;

use std::time::Duration;

use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient, EtcdError};
use oxds_testkit::etcd::ScriptedEtcd;
use oxds_testkit::etcd::request::{operation, put, read, watch};

/// A limit that a test of a silent member waits for.
const SHORT: Duration = Duration::from_millis(200);

/// Options without TLS and user.
fn plain(url: &str) -> (Endpoints, ClientOptions) {
    let endpoints: Endpoints = url.parse().unwrap();
    let options = ClientOptions::new(&endpoints, None).unwrap();
    (endpoints, options.timeout(crate::SOON))
}

async fn connect_with(url: &str, options: &ClientOptions) -> Result<EtcdClient, EtcdError> {
    let endpoints: Endpoints = url.parse().unwrap();
    EtcdClient::connect(endpoints.iter().next().unwrap(), options).await
}

pub(crate) async fn connect(etcd: &ScriptedEtcd) -> EtcdClient {
    let (_, options) = plain(&etcd.url());
    connect_with(&etcd.url(), &options).await.unwrap()
}

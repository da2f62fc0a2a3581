//! Commands that read and write etcd.

use oxds_testkit::etcd::ScriptedEtcd;
use tokio::runtime::Runtime;

use super::Work;
use crate::support::cluster;

/// Given an empty etcd, then a folder is published, changed and published again, and read back.
#[test]
fn publishes_are_as_reviewed() {
    let runtime = Runtime::new().expect("a runtime");
    let etcd = runtime.block_on(ScriptedEtcd::start()).expect("a port");
    let mut work = Work::new(&[
        ("config/a.yaml", &cluster("a")),
        ("config/b.yaml", &cluster("b")),
    ]);
    let url = etcd.url();
    work.replace(&url, "[ETCD]");
    work.snapshot(
        "publish.dry-run",
        &format!("publish config --etcd {url} --dry-run"),
    );
    work.snapshot("publish", &format!("publish config --etcd {url}"));
    work.snapshot("publish.same", &format!("publish config --etcd {url}"));
    work.write("config/a.yaml", &cluster("a").replace("1s", "2s"));
    work.snapshot("plan.published", &format!("plan config --etcd {url}"));
    work.snapshot(
        "publish.json",
        &format!("publish config --etcd {url} --format json"),
    );
    work.snapshot("get.published", &format!("get cds --etcd {url}"));
    work.snapshot("status.published", &format!("status --etcd {url}"));
    work.snapshot(
        "wait.published",
        &format!("wait --all --timeout 100ms --etcd {url}"),
    );
    work.write("config/a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"));
    work.snapshot("publish.invalid", &format!("publish config --etcd {url}"));
}

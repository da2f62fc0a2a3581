//! Commands that read folders: the example, a change of it, and folders with errors.

use std::fs;
use std::path::Path;

use super::Work;
use crate::support::{cluster, shop};

fn copy(from: &Path, to: &Path, edit: &dyn Fn(&str) -> String) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target, edit);
        } else {
            let text = fs::read_to_string(path).expect("a file");
            fs::write(target, edit(&text)).expect("written");
        }
    }
}

/// The example as `shop`, and as `config` with another cluster and other weights.
fn shops() -> Work {
    let work = Work::new(&[]);
    copy(&shop(), &work.path().join("shop"), &str::to_owned);
    copy(&shop(), &work.path().join("config"), &|text| {
        let text = text.replace("checkout-v2", "checkout-v3");
        text.replace("weight: 90", "weight: 80")
            .replace("weight: 10 ", "weight: 20 ")
    });
    work
}

#[test]
fn validate_is_as_reviewed() {
    let work = shops();
    work.write("broken/a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"));
    work.write("broken/b.yaml", &cluster("b").replace("1s", "soon"));
    work.write("broken/c.yaml", "- 1\n- : {\n");
    work.write(
        "broken/r.yaml",
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts:\n- name: all\n  domains: ['*']\n  routes:\n  - match: { prefix: / }\n    route: { cluster: none }\n",
    );
    work.snapshot("validate", "validate shop");
    work.snapshot("validate.json", "validate shop --format json");
    work.snapshot("validate.errors", "validate broken");
    work.snapshot("validate.errors.json", "validate broken --format json");
    work.snapshot("validate.missing-folder", "validate none");
}

#[test]
fn plan_and_diff_are_as_reviewed() {
    let work = shops();
    work.snapshot("plan", "plan config --against shop");
    work.snapshot("plan.json", "plan config --against shop --format json");
    work.snapshot("plan.same", "plan shop --against shop --detailed-exitcode");
    work.snapshot("diff", "diff shop config");
    work.snapshot("diff.json", "diff shop config --format json");
    work.snapshot("diff.same", "diff shop shop");
}

#[test]
fn deprecations_of_a_folder_are_as_reviewed() {
    let work = Work::new(&[(
        "config/a.yaml",
        &(cluster("a") + "http2_protocol_options: {}\n"),
    )]);
    work.snapshot("deprecations", "deprecations config");
    work.snapshot("deprecations.json", "deprecations config --format json");
    work.snapshot("deprecations.fail", "deprecations config --fail-on warned");
}

#[test]
fn bootstrap_files_are_as_reviewed() {
    let work = Work::new(&[]);
    let server = "--server xds.example.com:18000 --node-id edge-1 --cluster edge";
    work.snapshot("bootstrap_grpc", &format!("bootstrap grpc {server}"));
    work.snapshot("bootstrap_envoy", &format!("bootstrap envoy {server}"));
    work.snapshot(
        "bootstrap_envoy.delta",
        &format!("bootstrap envoy {server} --delta"),
    );
    let file = work.run(&format!("bootstrap grpc {server}")).stdout;
    work.write("bootstrap.json", &file);
    work.write(
        "broken.json",
        "{\n  \"xds_servers\": [{ \"server_uri\": \"a:1\" }]\n}\n",
    );
    work.snapshot("bootstrap_check", "bootstrap check bootstrap.json");
    work.snapshot("bootstrap_check.error", "bootstrap check broken.json");
}

const TESTS: &str = "tests:
- target: xds:///checkout
  request: /shop.Checkout/Pay
  clusters: { checkout-v1: 90, checkout-v2: 10 }
- name: catalog has one version
  target: xds:///catalog
  request: /shop.Catalog/List
  cluster: checkout-v1
";

#[test]
fn route_is_as_reviewed() {
    let work = shops();
    let request = "xds:///checkout /shop.Checkout/Pay";
    work.snapshot("route", &format!("route --dir shop {request}"));
    work.snapshot("route.all", &format!("route --dir shop {request} --all"));
    work.snapshot("route.json", &format!("route --dir shop {request} -o json"));
    work.snapshot(
        "route.not-found",
        "route --dir shop xds:///chekout /shop.Checkout/Pay",
    );
    work.write("tests.yaml", TESTS);
    work.snapshot("route_test", "route test tests.yaml --dir shop");
    let coverage = "route test tests.yaml --dir shop --min-coverage 100";
    work.snapshot("route_test.coverage", coverage);
}

#[test]
fn demo_of_a_folder_without_service_is_as_reviewed() {
    let work = Work::new(&[("config/a.yaml", &cluster("a"))]);
    work.snapshot("demo.no-service", "demo config");
}

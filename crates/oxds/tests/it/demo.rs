//! Tests of `oxds demo`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use crate::support::{Shop, command, folder, oxds, shop_on_free_ports};

/// Runs a demo on free ports, and again on others while it returns `None`: another test took one of them in between.
fn on_free_ports<T>(run: impl Fn(&Shop) -> Option<T>) -> (Shop, T) {
    let once = |_| {
        let shop = shop_on_free_ports();
        run(&shop).map(|ran| (shop, ran))
    };
    (0..5).find_map(once).expect("free ports")
}

#[test]
fn traffic_is_as_configured() {
    let (_, ran) = on_free_ports(|shop| {
        let ran = oxds([
            "demo".as_ref(),
            shop.path().as_os_str(),
            "--for".as_ref(),
            "3s".as_ref(),
        ]);
        (!ran.stderr.contains("in use")).then_some(ran)
    });
    ran.expect(
        0,
        &[
            "xds:///catalog",
            "xds:///checkout",
            "checkout-v2",
            "as configured",
        ],
    );
    assert_eq!(ran.stderr, "");
}

/// Given a running demo. When the weights are edited, the traffic follows, and still matches the folder at the end.
#[test]
fn traffic_follows_an_edit() {
    let (shop, (mut demo, mut lines)) = on_free_ports(|shop| {
        let mut demo = command(["demo", "--for", "5s"])
            .arg(shop.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(demo.stdout.take().expect("piped")).lines();
        let started = lines.any(|line| line.expect("UTF-8").contains("status"));
        if !started {
            demo.wait().expect("ended");
            return None;
        }
        Some((demo, lines))
    });
    let mut line = || lines.next().expect("more").expect("UTF-8");
    let routes = shop.path().join("checkout/routes.yaml");
    let text = fs::read_to_string(&routes).expect("read");
    let text = text
        .replace("weight: 90", "weight: 30")
        .replace("weight: 10 ", "weight: 70 ");
    fs::write(&routes, text).expect("written");
    while !line().contains("RouteConfiguration checkout-routes") {}
    let rest: Vec<_> = lines.map(|line| line.expect("UTF-8")).collect();
    let rest = rest.join("\n");
    assert!(rest.contains("70.0%"), "{rest}");
    assert!(
        rest.contains("as configured") && !rest.contains("not as configured"),
        "{rest}"
    );
    assert_eq!(demo.wait().expect("ended").code(), Some(0));
}

#[test]
fn port_in_use_is_reported_and_example_copied() {
    // If the bind fails, another process has the port: it is in use in both cases.
    let _taken = TcpListener::bind("127.0.0.1:18101");
    let dir = folder(&[]);
    let ran: crate::support::Ran = command(["demo", "--for", "2s"])
        .current_dir(dir.path())
        .output()
        .expect("ran")
        .into();
    ran.expect(1, &["error: 127.0.0.1:1810", "in use", "oxds-demo"]);
    assert!(dir.path().join("oxds-demo/checkout/routes.yaml").is_file());
}

#[test]
fn folder_without_service_is_a_usage_error() {
    let dir = folder(&[("a.yaml", "nonsense")]);
    let ran = oxds(["demo".as_ref(), dir.path().as_os_str()]);
    ran.expect(2, &["no service to call", "a.yaml"]);
    oxds(["demo", "/no/such/folder"]).expect(2, &["/no/such/folder"]);
}

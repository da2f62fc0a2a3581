//! Control planes that are known by a SPIFFE ID (gRFC A87).

use oxds_client::credentials::Trust;
use oxds_core::resource::Cluster;
use oxds_testkit::certificates::bundle_map;

use crate::secured::{
    Files, assignment, authority, client, cluster, garble, refusal, sees_the_cluster,
};
use crate::support::ControlPlane;

/// given a map of two trust domains / then a server of either is believed by the authority of its own, by whatever name
/// it was asked for, and by no other authority.
#[tokio::test]
async fn c258_the_trust_domain_of_the_server_selects_the_authorities() {
    let (files, prod, test) = (Files::new(), authority(), authority());
    let map = bundle_map(&[("prod.example", &prod), ("test.example", &test)]);
    let map = files.write("map.json", &map);
    for (issuer, id, is_believed) in [
        (&prod, "spiffe://prod.example/sa/xds", true),
        (&test, "spiffe://test.example/sa/xds", true),
        // An authority vouches for its own domain only.
        (&prod, "spiffe://test.example/sa/xds", false),
    ] {
        let security = files.security(&issuer.issue(&[id]).unwrap(), None);
        let server = ControlPlane::start_with(&cluster("old"), security);
        let client = client(server.address(), files.files(Trust::Spiffe(map.clone())));
        if is_believed {
            sees_the_cluster(&client).await;
        } else {
            let why = refusal(&client).await;
            assert!(why.contains("invalid peer certificate"), "{why}");
        }
    }
}

/// given a server whose certificate shows nobody in SPIFFE's sense, or somebody of a domain that is not in the map / then
/// it is not believed, and the reason is said.
#[tokio::test]
async fn c258_who_has_no_spiffe_id_of_a_known_domain_is_not_believed() {
    let (files, prod) = (Files::new(), authority());
    let map = files.write("map.json", &bundle_map(&[("prod.example", &prod)]));
    let cases: [(&[&str], &str); 4] = [
        (&["127.0.0.1"], "0 URIs"),
        (
            &["spiffe://prod.example/a", "spiffe://prod.example/b"],
            "2 URIs",
        ),
        (&["https://prod.example/a"], "another scheme than spiffe"),
        (
            &["spiffe://else.example/a"],
            "no trust domain \"else.example\"",
        ),
    ];
    for (names, reason) in cases {
        let security = files.security(&prod.issue(names).unwrap(), None);
        let server = ControlPlane::start_with(&cluster("old"), security);
        let client = client(server.address(), files.files(Trust::Spiffe(map.clone())));
        let why = refusal(&client).await;
        assert!(why.contains(reason), "{why}");
    }
}

/// given a client that believes by a map / when the map is replaced by garbage, and then by one with another authority /
/// then the garbage changes nothing, and the next map counts.
#[tokio::test]
async fn c18_c258_a_map_that_was_replaced_counts_if_it_is_one() {
    let (files, before, after) = (Files::new(), authority(), authority());
    let map = files.write("map.json", &bundle_map(&[("prod.example", &before)]));
    let id = &["spiffe://prod.example/sa/xds"];
    let security = files.security(&before.issue(id).unwrap(), None);
    let mut server = ControlPlane::start_with(&cluster("one"), security);
    let client = client(server.address(), files.files(Trust::Spiffe(map.clone())));
    let mut watch = client.watch::<Cluster>("c");
    assert_eq!(assignment(&mut watch).await, "one");

    garble(&map);
    server.write(&cluster("two"));
    server.restart();
    assert_eq!(assignment(&mut watch).await, "two");

    files.write("map.json", &bundle_map(&[("prod.example", &after)]));
    server.write(&cluster("three"));
    server.restart_with(files.security(&after.issue(id).unwrap(), None));
    assert_eq!(assignment(&mut watch).await, "three");
}

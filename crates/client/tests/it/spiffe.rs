//! Control planes that are authenticated by a SPIFFE ID (gRFC A87).

use oxds_client::credentials::Trust;
use oxds_core::resource::Cluster;
use oxds_testkit::certificates::bundle_map;

use crate::secured::{
    Files, assignment, authority, client, cluster, garble, refusal, sees_the_cluster,
};
use oxds_testkit::folder_server::FolderServer;

/// given a map of two trust domains / then a server of each domain is accepted by the roots of its own domain, under
/// any host name, and by no other roots.
#[tokio::test]
async fn c258_trust_domain_of_the_server_selects_the_roots() {
    let (files, prod, test) = (Files::new(), authority(), authority());
    let map = bundle_map(&[("prod.example", &prod), ("test.example", &test)]);
    let map = files.write("map.json", &map);
    for (issuer, id, is_believed) in [
        (&prod, "spiffe://prod.example/sa/xds", true),
        (&test, "spiffe://test.example/sa/xds", true),
        // Roots vouch for their own domain only.
        (&prod, "spiffe://test.example/sa/xds", false),
    ] {
        let security = files.security(&issuer.issue(&[id]).unwrap(), None);
        let server = FolderServer::start_with(&cluster("old"), security);
        let client = client(server.address(), files.files(Trust::Spiffe(map.clone())));
        if is_believed {
            sees_the_cluster(&client).await;
        } else {
            let why = refusal(&client).await;
            assert!(why.contains("invalid peer certificate"), "{why}");
        }
    }
}

/// given a server whose certificate has no SPIFFE ID, or one of an unknown domain / then it is rejected with the
/// reason.
#[tokio::test]
async fn c258_server_without_known_spiffe_id_is_rejected() {
    let (files, prod) = (Files::new(), authority());
    let map = files.write("map.json", &bundle_map(&[("prod.example", &prod)]));
    let cases: [(&[&str], &str); 4] = [
        (&["127.0.0.1"], "0 URI names"),
        (
            &["spiffe://prod.example/a", "spiffe://prod.example/b"],
            "2 URI names",
        ),
        (&["https://prod.example/a"], "a scheme other than spiffe"),
        (
            &["spiffe://else.example/a"],
            "trust domain \"else.example\" is not in the bundle map",
        ),
    ];
    for (names, reason) in cases {
        let security = files.security(&prod.issue(names).unwrap(), None);
        let server = FolderServer::start_with(&cluster("old"), security);
        let client = client(server.address(), files.files(Trust::Spiffe(map.clone())));
        let why = refusal(&client).await;
        assert!(why.contains(reason), "{why}");
    }
}

/// given a client with a bundle map / when the file is replaced by garbage, then by a map with other roots / then the
/// garbage changes nothing, and the next map applies.
#[tokio::test]
async fn c18_c258_replaced_bundle_map_applies_if_valid() {
    let (files, before, after) = (Files::new(), authority(), authority());
    let map = files.write("map.json", &bundle_map(&[("prod.example", &before)]));
    let id = &["spiffe://prod.example/sa/xds"];
    let security = files.security(&before.issue(id).unwrap(), None);
    let mut server = FolderServer::start_with(&cluster("one"), security);
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

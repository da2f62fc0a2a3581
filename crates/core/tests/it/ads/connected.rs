//! C-168, C-169: connectivity of servers, summaries of responses, and fallback on reachability (gRFC A78, A95).

use oxds_types::ResourceType;

use super::servers::{Servers, served_by_first};
use super::{bad_cluster, cluster, response};

#[test]
fn c168_connected_until_failure_without_response() {
    let mut servers = Servers::new(&["PF"]);
    let connected =
        |servers: &Servers| ['P', 'F'].map(|s| servers.client.is_connected(servers.id(s)));
    assert_eq!(
        connected(&servers),
        [None, None],
        "nothing is asked of them"
    );
    servers.watch(0, "a");
    servers.transmits();
    assert_eq!(connected(&servers), [Some(true), None], "a stream is made");
    servers.fails('P');
    assert_eq!(connected(&servers), [Some(false), Some(true)]);
    servers.waits();
    servers.opened('P');
    assert_eq!(
        connected(&servers)[0],
        Some(false),
        "an open stream does not count as an answer"
    );
    servers.responds('P', "p1", vec![cluster("a", "p")]);
    assert_eq!(connected(&servers), [Some(true), None], "F is disconnected");
    servers.fails('P');
    assert_eq!(connected(&servers)[0], Some(true), "it had answered");
    servers.waits();
    servers.fails('P');
    assert_eq!(connected(&servers)[0], Some(false));
    servers.client.unwatch(&ResourceType::CLUSTER, "a");
    servers.transmits();
    assert_eq!(connected(&servers), [None, None]);
}

#[test]
fn c168_summary_counts_unchanged_resources() {
    let mut servers = served_by_first();
    let mut updates = |clusters| {
        let (now, server) = (servers.now, servers.id('P'));
        let response = response(&ResourceType::CLUSTER, "p2", "n", clusters);
        let updates = servers.client.handle_response(now, server, response)?;
        Some((updates.resource_type, updates.valid, updates.invalid))
    };
    let same = vec![cluster("a", "p"), cluster("other", "p")];
    assert_eq!(updates(same), Some((ResourceType::CLUSTER, 2, 0)));
    let mixed = vec![cluster("a", "p"), bad_cluster("b")];
    assert_eq!(updates(mixed), Some((ResourceType::CLUSTER, 1, 1)));
    assert_eq!(updates(Vec::new()), Some((ResourceType::CLUSTER, 0, 0)));
    let (now, server) = (servers.now, servers.id('P'));
    let foreign = response(&ResourceType::LISTENER, "1", "n", Vec::new());
    assert_eq!(servers.client.handle_response(now, server, foreign), None);
}

#[test]
fn c169_reachability_only_falls_back_with_all_names_cached() {
    let mut servers = Servers::with_eager(&["PF", "PG"], 1);
    servers.watch(0, "config");
    servers.watch(1, "endpoints");
    servers.transmits();
    servers.opened('P');
    let both = vec![cluster("config", "p"), cluster("endpoints", "p")];
    servers.responds('P', "p1", both);
    servers.events();
    assert_eq!(servers.fails('P'), Vec::<String>::new(), "it had answered");
    servers.waits();
    assert_eq!(servers.fails('P'), ["G open"]);
    assert_eq!(servers.opened('G'), ["G endpoints"]);
    servers.responds('G', "g1", vec![cluster("endpoints", "g")]);
    assert_eq!(servers.from("config"), "P", "held, and only remarked upon");
    assert_eq!(servers.from("endpoints"), "G");
    servers.waits();
    servers.opened('P');
    let both = vec![cluster("config", "p"), cluster("endpoints", "p")];
    let transmits = servers.responds('P', "p1", both);
    assert_eq!(transmits, ["P config,endpoints p1", "G close"]);
    assert_eq!(servers.from("endpoints"), "P");
}

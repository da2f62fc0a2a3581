//! A server of higher priority returns without changes (gRFC A71): it takes over again, even if it compares versions.

use std::time::Duration;

use oxds_types::ResourceType;

use super::servers::{Servers, fallen_back};
use super::{assignment, cluster};

/// Given F's resources in place of P's. When P is back, then it gets a request without a version, so that it answers
/// and takes over, although nothing changed there.
#[test]
fn c158_superseded_server_gets_request_without_version() {
    let mut servers = fallen_back();
    servers.responds('F', "f1", vec![cluster("a", "f"), cluster("b", "f")]);
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b"]);
    let same = vec![cluster("a", "p"), cluster("b", "p")];
    assert_eq!(servers.responds('P', "p1", same), ["P a,b p1", "F close"]);
    assert_eq!((servers.from("a"), servers.from("b")), both_from("P"));
}

/// Given an F that has not answered yet. When P is back, then its request has the cached version.
#[test]
fn c163_current_server_gets_request_with_version() {
    let mut servers = fallen_back();
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b p1"]);
}

/// Given P, back before F has answered, which sends nothing because its request had the current version. When F
/// answers, then that version no longer holds, and P gets a new stream, once, without an error.
#[test]
fn c158_superseded_version_on_open_stream_reconnects() {
    let mut servers = fallen_back();
    servers.waits();
    assert_eq!(servers.opened('P'), ["P a,b p1"]);
    servers.events();
    let both = vec![cluster("a", "f"), cluster("b", "f")];
    let transmits = servers.responds('F', "f1", both);
    assert_eq!(transmits, ["P close", "P open", "F a,b f1"]);
    assert_eq!(servers.opened('P'), ["P a,b"]);
    let both = vec![cluster("a", "f2"), cluster("b", "f2")];
    assert_eq!(servers.responds('F', "f2", both), ["F a,b f2"]);
    let events = servers.events();
    assert!(
        events.iter().all(|event| event.ends_with("changed")),
        "{events:?}"
    );
    let same = vec![cluster("a", "p"), cluster("b", "p")];
    assert_eq!(servers.responds('P', "p1", same), ["P a,b p1", "F close"]);
}

/// Given an F that answered for clusters only. When P is back, then its request for endpoints still has their version.
#[test]
fn c163_types_are_superseded_separately() {
    let mut servers = Servers::new(&["PF"]);
    servers.watch_of(&ResourceType::ENDPOINT, 0, "e");
    servers.watch(0, "a");
    servers.transmits();
    assert_eq!(servers.opened('P'), ["P a", "P e"]);
    servers.responds('P', "c1", vec![cluster("a", "p")]);
    servers.responds_of(&ResourceType::ENDPOINT, 'P', "e1", vec![assignment("e")]);
    servers.watch(0, "b");
    servers.transmits();
    servers.fails('P');
    servers.waits();
    servers.fails('P');
    servers.opened('F');
    servers.responds('F', "f1", vec![cluster("a", "f"), cluster("b", "f")]);
    servers.waits();
    assert_eq!(servers.opened('P'), ["P a,b", "P e e1"]);
}

/// Given three servers. When the second replaces the resources of the first, and the third those of both, then neither
/// gets a version when it is back.
#[test]
fn c159_each_of_three_servers_starts_without_version() {
    let mut servers = Servers::new(&["PMF"]);
    servers.watch(0, "a");
    servers.transmits();
    servers.opened('P');
    servers.responds('P', "p1", vec![cluster("a", "p")]);
    servers.fails('P');
    servers.waits();
    servers.fails('P');
    servers.watch(0, "b");
    servers.transmits();
    servers.opened('M');
    servers.responds('M', "m1", vec![cluster("a", "m"), cluster("b", "m")]);
    servers.fails('M');
    servers.waits();
    servers.fails('M');
    servers.watch(0, "c");
    servers.transmits();
    servers.opened('F');
    let all = ["a", "b", "c"].map(|name| cluster(name, "f"));
    servers.responds('F', "f1", all.to_vec());
    assert_eq!(servers.waits(), ["M open"], "P is being called");
    assert_eq!(servers.opened('M'), ["M a,b,c"]);
    assert_eq!(servers.opened('P'), ["P a,b,c"]);
}

fn both_from(server: &str) -> (String, String) {
    (server.to_owned(), server.to_owned())
}

/// Given delta streams; then P gets no initial versions while F's resources replace its own, and a new stream if it had
/// any.
#[test]
fn c158_delta_supersedes_as_sotw_does() {
    for is_back_early in [false, true] {
        let mut servers = Servers::of_differences(&["PF"]);
        servers.watch(0, "a");
        servers.watch(0, "c");
        servers.transmits();
        servers.opened('P');
        servers.sends('P', &[("a", "p1"), ("c", "p1")]);
        servers.fails('P');
        servers.waits();
        servers.fails('P');
        servers.watch(0, "b");
        servers.transmits();
        assert_eq!(servers.opened('F'), ["F +a,b,c"]);
        if is_back_early {
            servers.waits();
            assert_eq!(servers.opened('P'), ["P +a,b,c a=p1 c=p1"]);
            let transmits = servers.sends('F', &[("a", "f1"), ("b", "f1")]);
            assert_eq!(transmits, ["P close", "P open", "F ok"]);
        } else {
            assert_eq!(servers.sends('F', &[("a", "f1"), ("b", "f1")]), ["F ok"]);
            assert_eq!(servers.waits(), ["P open"]);
        }
        assert_eq!(servers.opened('P'), ["P +a,b,c"]);
        assert_eq!(servers.sends('F', &[("c", "f2")]), ["F ok"], "once");
        let transmits = servers.sends('P', &[("a", "p1"), ("b", "p1"), ("c", "p1")]);
        assert_eq!(transmits, ["P ok", "F close"]);
        for name in ["a", "b", "c"] {
            assert_eq!(servers.from(name), "P");
        }
    }
}

/// `*` is watched; P was lost, and F has sent `a` and `b`. P is back, and has not answered.
fn wildcard_of_fallback(mut servers: Servers, delta: bool) -> Servers {
    servers.watch(0, "*");
    servers.watch(0, "b");
    servers.transmits();
    servers.fails('P');
    servers.opened('F');
    if delta {
        servers.sends('F', &[("a", "f"), ("b", "f"), ("c", "f")])
    } else {
        let all = ["a", "b", "c"].map(|name| cluster(name, "f"));
        servers.responds('F', "f1", all.to_vec())
    };
    servers.waits();
    servers.opened('P');
    servers.events();
    servers
}

/// Given a wildcard over SotW. When P answers, then the members that only F has sent are gone, and a name that is
/// watched itself stays (D8, C-164).
#[test]
fn c158_members_of_fallback_server_leave_with_it() {
    let mut servers = wildcard_of_fallback(Servers::new(&["PF"]), false);
    servers.responds('P', "p1", vec![cluster("a", "p")]);
    let events = servers.events();
    assert_eq!(events[1], "a: changed", "{events:?}");
    assert!(
        events[0].starts_with("c: error: ") && events.len() == 2,
        "{events:?}"
    );
    assert_eq!(
        (servers.from("a"), servers.from("b")),
        ("P".into(), "F".into())
    );
    assert!(servers.client.cached(&ResourceType::CLUSTER, "c").is_none());
}

/// Given a wildcard over delta, where P may send the members in several responses. Then those that it does not send
/// within the resource timeout are gone.
#[test]
fn c158_delta_members_of_fallback_server_time_out() {
    let mut servers = wildcard_of_fallback(Servers::of_differences(&["PF"]), true);
    servers.sends('P', &[("a", "p")]);
    assert_eq!(servers.events(), ["a: changed"]);
    assert_eq!(servers.from("c"), "F");
    servers.now += Duration::from_secs(14);
    servers.client.handle_timeout(servers.now);
    assert!(servers.events().is_empty());
    servers.sends('P', &[("d", "p")]);
    servers.now += Duration::from_secs(1);
    servers.client.handle_timeout(servers.now);
    let events = servers.events();
    assert!(
        events[0] == "d: changed" && events[1].starts_with("c: error: "),
        "{events:?}"
    );
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(servers.client.cached(&ResourceType::CLUSTER, "c").is_none());
    assert_eq!(servers.client.poll_timeout(), None);
}

//! A more wanted server comes back with nothing new (gRFC A71): it is the client's again, whatever servers make of versions.

use oxds_types::ResourceType;

use super::servers::{Servers, fallen_back};
use super::{assignment, cluster};

/// given F's word in the place of P's / when P is back / then it is told of no version, so that it answers and takes over,
/// although it has nothing new.
#[test]
fn c158_whose_word_was_replaced_is_asked_as_if_for_the_first_time() {
    let mut servers = fallen_back();
    servers.responds('F', "f1", vec![cluster("a", "f"), cluster("b", "f")]);
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b"]);
    let same = vec![cluster("a", "p"), cluster("b", "p")];
    assert_eq!(servers.responds('P', "p1", same), ["P a,b p1", "F close"]);
    assert_eq!((servers.from("a"), servers.from("b")), both_from("P"));
}

/// given an F that has said nothing yet / when P is back / then it is told of the version that is held.
#[test]
fn c163_whose_word_still_counts_is_told_of_it() {
    let mut servers = fallen_back();
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b p1"]);
}

/// given P, back before F has answered, and silent: it was told that all it has is held / when F answers / then that is so no
/// more, and P is called anew, once; nothing of that is an error.
#[test]
fn c158_who_was_told_of_what_is_then_replaced_is_called_anew() {
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

/// given an F that has answered for clusters alone / when P is back / then its version of endpoints is still told.
#[test]
fn c163_types_are_replaced_one_by_one() {
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

/// given three servers / when the second speaks in the place of the first, and the third in that of both / then neither
/// is told of a version when it is back.
#[test]
fn c159_of_three_servers_each_begins_anew() {
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

/// given the same by differences / then P is told of nothing while F's word stands in for its own, and called anew if it was.
#[test]
fn c158_differences_begin_anew_as_full_states_do() {
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

//! Pages of a range: growth, revisions, and answers that contradict the request.

use oxds_types::etcd::ResponseHeader;

use super::*;

/// A page of keys from this number on, read when the store had this revision.
fn page_at(revision: i64, from: usize, len: usize, value: usize) -> RangeResponse {
    let kv = |at: usize| KeyValue {
        key: format!("k{at:05}").into(),
        value: vec![0; value].into(),
        mod_revision: 7,
        ..KeyValue::default()
    };
    RangeResponse {
        header: Some(ResponseHeader {
            cluster_id: 1,
            revision,
            ..ResponseHeader::default()
        }),
        kvs: (from..from + len).map(kv).collect(),
        more: true,
        ..RangeResponse::default()
    }
}

fn page(from: usize, len: usize) -> RangeResponse {
    page_at(9, from, len, 1)
}

fn pages(at: ReadAt) -> Pages {
    let (start, end) = ("k".into(), "l".into());
    Pages::new(KeyRange { start, end }, at)
}

#[test]
fn pages_continue_after_the_last_key() {
    let mut pages = pages(ReadAt::Revision(7));
    assert_eq!(pages.take(&page(0, 2)), Ok(()));
    let request = pages.request();
    assert_eq!(
        (&request.key[..], &request.range_end[..]),
        (&b"k00001\0"[..], &b"l"[..])
    );
    assert_eq!((request.revision, pages.is_complete()), (7, false));
    let last = RangeResponse {
        more: false,
        ..page(2, 0)
    };
    assert_eq!(pages.take(&last), Ok(()));
    assert!(pages.is_complete());
}

#[test]
fn g16_pages_are_read_at_the_revision_that_was_asked_for() {
    for (at, first, second) in [
        (ReadAt::First, 0, 9),
        (ReadAt::Revision(7), 7, 7),
        (ReadAt::Latest, 0, 0),
    ] {
        let mut pages = pages(at);
        assert_eq!(pages.request().revision, first, "{at:?}");
        assert_eq!(pages.position(), None);
        pages.take(&page(0, 2)).unwrap();
        assert_eq!(pages.request().revision, second, "{at:?}");
    }
}

#[test]
fn pages_grow_with_small_values_and_shrink_with_large_ones() {
    let mut pages = pages(ReadAt::First);
    let mut limits = vec![];
    for at in 0..5 {
        pages.take(&page_at(9, at * 64, 64, 500)).unwrap();
        limits.push(pages.request().limit);
    }
    assert_eq!(limits, [512, 4096, 16_578, 16_578, 16_578]);
    pages.take(&page_at(9, 1000, 64, 1024 * 1024)).unwrap();
    assert_eq!(pages.request().limit, 7);
    let mut pages = self::pages(ReadAt::First);
    for at in 0..5 {
        pages.take(&page_at(9, at * 64, 64, 10)).unwrap();
    }
    assert_eq!(pages.request().limit, 50_000);
}

/// given a page that the client does not accept / when it is requested again / then it begins at the same key and has
/// fewer keys, until it has one.
#[test]
fn g19_page_that_is_too_large_is_read_in_parts() {
    let mut pages = pages(ReadAt::First);
    pages.take(&page(0, 64)).unwrap();
    let first = pages.request();
    let mut limits = vec![];
    while pages.shrink() {
        let RangeRequest { limit, ref key, .. } = pages.request();
        assert_eq!(*key, first.key);
        limits.push(limit);
    }
    assert_eq!(limits, [64, 8, 1]);
}

/// given 20 times many small values and a few large ones / when they are read / then few pages are too large.
#[test]
fn g19_small_and_large_values_in_turns_are_read() {
    const PART: usize = 50_000;
    const LARGE: usize = 200;
    let size = |at: usize| if at % PART < LARGE { 1 << 20 } else { 100 };
    let mut pages = pages(ReadAt::First);
    let (mut at, mut refused) = (0, 0);
    while at < 20 * PART {
        let limit = usize::try_from(pages.request().limit).unwrap();
        let page: usize = (at..at + limit).map(size).sum();
        if page > 128 << 20 {
            refused += 1;
            assert!(pages.shrink(), "a page of one key is not too large");
        } else {
            pages.grow(limit, page);
            at += limit;
        }
    }
    assert!(refused <= 10, "{refused} pages were too large");
}

#[test]
fn g21_page_that_contradicts_the_request_is_an_error() {
    let ok = || page(2, 2);
    let bad: [(&str, ReadAt, RangeResponse); 7] = [
        (
            "no header",
            ReadAt::First,
            RangeResponse {
                header: None,
                ..ok()
            },
        ),
        (
            "different clusters",
            ReadAt::First,
            RangeResponse {
                header: Some(ResponseHeader {
                    cluster_id: 2,
                    revision: 9,
                    ..ResponseHeader::default()
                }),
                ..ok()
            },
        ),
        ("order", ReadAt::First, page(1, 2)),
        ("not the last", ReadAt::First, page(2, 0)),
        ("earlier revision", ReadAt::Latest, page_at(8, 2, 2, 1)),
        ("earlier revision", ReadAt::First, page_at(8, 2, 2, 1)),
        ("later revision", ReadAt::Revision(6), page(0, 2)),
    ];
    for (reason, at, bad) in bad {
        let mut pages = pages(at);
        if reason != "later revision" {
            pages.take(&page(0, 2)).unwrap();
        }
        let error = pages.take(&bad).expect_err(reason);
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

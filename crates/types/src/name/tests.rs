//! Spellings of one name, and the collections that names are in.

use proptest::prelude::*;

use super::*;

#[test]
fn legacy_names_are_canonical_as_they_are() {
    for name in [
        "",
        "cluster",
        "*",
        "a?b=c&a=b",
        "http://x/y",
        "%zz",
        "XDSTP://a/b",
    ] {
        assert_eq!(canonical(name), name);
    }
}

#[test]
fn c42_context_parameters_are_sorted() {
    for (name, expected) in [
        ("xdstp://a/t.T/id?b=2&a=1&b=3", "xdstp://a/t.T/id?a=1&b=2"),
        ("xdstp://a/t.T/id?a=1&&b=2&", "xdstp://a/t.T/id?a=1&b=2"),
        ("xdstp://a/t.T/id?%61=1&a=2", "xdstp://a/t.T/id?a=1"),
        ("xdstp://a/t.T/id?", "xdstp://a/t.T/id"),
    ] {
        assert_eq!(canonical(name), expected, "{name}");
    }
}

#[test]
fn c44_empty_authority_is_an_authority() {
    let name = ResourceName::parse("xdstp:///t.T/id").unwrap();
    assert_eq!(name.authority(), Some(""));
    assert_eq!(name.canonical(), "xdstp:///t.T/id");
}

#[test]
fn c42_percent_escapes_are_normalized() {
    for (name, expected) in [
        (
            "xdstp://a/t.T/%66oo%20%3f?k=%26",
            "xdstp://a/t.T/foo%20%3F?k=%26",
        ),
        ("xdstp://a/t.T/id%3A80", "xdstp://a/t.T/id:80"),
        ("xdstp://a/t.T/id:80", "xdstp://a/t.T/id:80"),
        ("xdstp://a/t.T/a%2Fb", "xdstp://a/t.T/a/b"),
        ("xdstp://a/t.T/%7Eroot", "xdstp://a/t.T/~root"),
        ("xdstp://a/t.T/%5B::1%5D:80", "xdstp://a/t.T/%5B::1%5D:80"),
        ("xdstp://[::1]:80/t.T/x", "xdstp://[::1]:80/t.T/x"),
        ("xdstp://a b/t.T/ü", "xdstp://a%20b/t.T/%C3%BC"),
        ("xdstp://a%2Fb/t%2FT/x", "xdstp://a%2Fb/t%2FT/x"),
        ("xdstp://a/t.T/x%25zz%zz", "xdstp://a/t.T/x%25zz%25zz"),
    ] {
        assert_eq!(canonical(name), expected, "{name}");
    }
}

#[test]
fn directives_are_not_part_of_a_name() {
    assert_eq!(canonical("xdstp://a/t.T/id#entry=x"), "xdstp://a/t.T/id");
    assert_eq!(
        canonical("xdstp://a/t.T/id?k=v#alt=xdstp://b/t.T/id"),
        "xdstp://a/t.T/id?k=v"
    );
}

#[test]
fn malformed_names_are_errors_and_compared_byte_by_byte() {
    type MakeError = fn(String) -> NameError;
    let cases: [(&str, MakeError); 6] = [
        ("xdstp:a/t.T/x", NameError::NoType),
        ("xdstp://a", NameError::NoType),
        ("xdstp://a/", NameError::NoType),
        ("xdstp://a//x", NameError::NoType),
        ("xdstp://a/t/x?b&a=1", NameError::Context),
        ("xdstp://a/t/%ff", NameError::NotUtf8),
    ];
    for (name, error) in cases {
        assert_eq!(ResourceName::parse(name), Err(error(name.to_owned())));
        assert_eq!(canonical(name), name);
    }
    assert_eq!(
        ResourceName::parse("xdstp://a").unwrap_err().to_string(),
        "malformed xdstp name \"xdstp://a\": expected xdstp://authority/message.Type/id"
    );
}

#[test]
fn collections_are_the_path_above_and_the_context() {
    for (name, collection) in [
        ("xdstp://a/T/foo/x?k=v", Some("xdstp://a/T/foo/*?k=v")),
        ("xdstp://a/T/foo/bar/x", Some("xdstp://a/T/foo/bar/*")),
        ("xdstp://a/T/x", Some("xdstp://a/T/*")),
        ("xdstp:///T/x", Some("xdstp:///T/*")),
        ("xdstp://a/T/x?k=a/b", Some("xdstp://a/T/*?k=a/b")),
        ("xdstp://a/T/foo/*", None),
        ("xdstp://a/T", None),
        ("xdstp://a", None),
        ("xdstp:a/T/x", None),
        ("plain/x", None),
    ] {
        assert_eq!(collection_of(name).as_deref(), collection, "{name}");
        if let Some(collection) = collection {
            assert!(is_collection(collection));
            let prefix = member_prefix(collection).unwrap();
            assert!(
                name.starts_with(prefix) && prefix.ends_with('/'),
                "{prefix}"
            );
        }
    }
    for name in ["plain/*", "xdstp://*", "xdstp://a/*", "xdstp://a/T/x*", "x"] {
        assert!(
            !selects_many(name) && member_prefix(name).is_none(),
            "{name}"
        );
    }
    assert!(selects_many(WILDCARD) && selects_many("xdstp://a/T/*?k=v"));
}

/// One spelling of a decoded part: each octet is escaped, or not, by a bit of `choice`.
fn spell(part: &str, escape_always: &[u8], choice: u64) -> String {
    let mut text = String::new();
    for (index, c) in part.chars().enumerate() {
        let must = c.is_ascii() && escape_always.contains(&(c as u8));
        if must || choice >> (index % 64) & 1 == 1 {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                text += &match choice >> (index % 61) & 2 {
                    0 => format!("%{byte:02x}"),
                    _ => format!("%{byte:02X}"),
                };
            }
        } else {
            text.push(c);
        }
    }
    text
}

fn names() -> impl Strategy<Value = XdstpName> {
    let context = prop::collection::btree_map("\\PC{0,4}", "\\PC{0,4}", 0..4);
    let parts = ("\\PC{0,8}", "\\PC{1,8}", "\\PC{0,12}", context);
    parts.prop_map(|(authority, message, id, context)| XdstpName {
        authority,
        message,
        id,
        context,
    })
}

proptest! {
    #[test]
    fn canonical_is_idempotent_for_any_text(text in "(xdstp:(//)?)?[a%2F/*?#&=:~.ü\\PC]{0,24}") {
        let once = canonical(&text).into_owned();
        prop_assert_eq!(canonical(&once), &*once);
    }

    /// Equal parts have one canonical form, whatever the spelling; the form has these parts.
    #[test]
    fn c42_every_spelling_has_one_canonical_form(name in names(), choice: u64, reversed: bool) {
        let delimiters = b"%/?#";
        let mut parameters: Vec<String> = name.context.iter().map(|(key, value)| {
            format!("{}={}", spell(key, b"%#&=", choice), spell(value, b"%#&=", !choice))
        }).collect();
        if reversed {
            parameters.reverse();
        }
        let text = format!(
            "xdstp://{}/{}/{}?{}#entry=x",
            spell(&name.authority, delimiters, choice),
            spell(&name.message, delimiters, choice),
            spell(&name.id, b"%?#", choice),
            parameters.join("&"),
        );
        let canonical = canonical(&text).into_owned();
        prop_assert_eq!(&canonical, &name.to_string());
        prop_assert_eq!(ResourceName::parse(&canonical), Ok(ResourceName::Xdstp(name)));
    }

    #[test]
    fn c42_different_parts_have_different_canonical_forms(one in names(), other in names()) {
        prop_assert_eq!(one == other, one.to_string() == other.to_string());
    }
}

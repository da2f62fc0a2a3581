//! The output of `oxds api stubs` for a small tree, compiled beside the messages that it is for (V-42). `skeleton.rs`
//! is that output: `OXDS_WRITE=1 cargo test -p oxds --test it v42_` writes it again.

mod v1;
mod v2;

#[rustfmt::skip]
#[allow(
    unreachable_pub,
    clippy::redundant_closure,
    clippy::todo,
    reason = "the file is generated, for a module of its users"
)]
mod skeleton;

use std::collections::HashMap;
use std::path::Path;

use envoy_types::pb::google::protobuf::Any;

use crate::support::{folder, oxds};

#[test]
fn v42_compiled_skeleton_is_the_output_of_stubs() {
    let dir = folder(&[
        ("shop/v1/order.proto", include_str!("order.v1.proto")),
        ("shop/v2/order.proto", include_str!("order.v2.proto")),
    ]);
    let tree = dir.path().to_str().expect("UTF-8");
    let ran = oxds(["api", "stubs", "--to", "v2", "--tree", tree]);
    ran.expect(0, &[]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/shop/skeleton.rs");
    if std::env::var_os("OXDS_WRITE").is_some() {
        std::fs::write(&path, &ran.stdout).expect("written");
    }
    assert_eq!(
        include_str!("skeleton.rs"),
        ran.stdout,
        "see the head of this file"
    );
}

fn item(name: &str) -> v1::Item {
    v1::Item {
        name: name.to_owned(),
        inner: None,
    }
}

/// Given an order without a field that needs a decision, then the skeleton translates it as it is.
#[test]
fn v42_unchanged_fields_of_the_skeleton_are_done() {
    let extension = Some(Any {
        type_url: "x".to_owned(),
        value: b"y".to_vec(),
    });
    let order = v1::Order {
        id: "a".to_owned(),
        count: 3,
        items: vec![v1::Item {
            inner: Some(Box::new(item("in"))),
            ..item("out")
        }],
        extension: extension.clone(),
        color: 1,
        pay: Some(v1::order::Pay::Card("c".to_owned())),
        by_name: HashMap::from([("k".to_owned(), item("v"))]),
        ..v1::Order::default()
    };
    let new = |name: &str| v2::Item {
        name: name.to_owned(),
        inner: None,
    };
    let expected = v2::Order {
        id: "a".to_owned(),
        count: 3,
        items: vec![v2::Item {
            inner: Some(Box::new(new("in"))),
            ..new("out")
        }],
        extension,
        color: 4,
        pay: Some(v2::order::Pay::Card("c".to_owned())),
        by_name: HashMap::from([("k".to_owned(), new("v"))]),
        r#type: String::new(),
    };
    assert_eq!(skeleton::shop_v1_order(order), expected);
}

/// Given an order with one field that needs a decision, then its `todo!` is reached, whatever the type of the field is.
#[test]
fn v42_changed_field_of_the_skeleton_is_a_todo() {
    let changes: [fn(&mut v1::Order); 11] = [
        |order| order.code = "x".to_owned(),
        |order| order.seal = vec![0],
        |order| order.tries = vec![0],
        |order| order.labels = HashMap::from([(String::new(), String::new())]),
        |order| order.limit = Some(0),
        |order| order.gift = Some(item("")),
        |order| order.last = 1,
        |order| order.rush = true,
        |order| order.weight = 1,
        |order| order.price = 0.5,
        |order| order.pay = Some(v1::order::Pay::Cash(String::new())),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut order = v1::Order::default();
        change(&mut order);
        let reached = std::panic::catch_unwind(|| skeleton::shop_v1_order(order));
        assert!(reached.is_err(), "change {index}");
    }
}

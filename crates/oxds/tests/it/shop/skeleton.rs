//! Translation of messages to v2: a skeleton by `oxds api stubs`.
//!
//! Unchanged fields are done. Each `todo!` is a decision. The messages are those that `prost` generates.

/// Translates the number of a value to `shop.v2.Color`.
#[must_use]
pub fn shop_v1_color(old: i32) -> i32 {
    match old {
        0 => 0, // NONE becomes NONE
        1 => 4, // RED becomes RED
        2 => todo!("BLUE: shop.v2.Color has no such value"),
        unknown => unknown,
    }
}

/// Translates `shop.v1.Item` to `shop.v2.Item`.
#[must_use]
pub fn shop_v1_item(old: crate::shop::v1::Item) -> crate::shop::v2::Item {
    crate::shop::v2::Item {
        name: old.name,
        inner: old.inner.map(|one| Box::new(shop_v1_item(*one))),
    }
}

/// Translates `shop.v1.Order` to `shop.v2.Order`.
#[must_use]
pub fn shop_v1_order(old: crate::shop::v1::Order) -> crate::shop::v2::Order {
    if !old.code.is_empty() {
        todo!("code: shop.v2.Order has no such field");
    }
    if !old.seal.is_empty() {
        todo!("seal: shop.v2.Order has no such field");
    }
    if !old.tries.is_empty() {
        todo!("tries: shop.v2.Order has no such field");
    }
    if !old.labels.is_empty() {
        todo!("labels: shop.v2.Order has no such field");
    }
    if old.limit.is_some() {
        todo!("limit: shop.v2.Order has no such field");
    }
    if old.gift.is_some() {
        todo!("gift: shop.v2.Order has no such field");
    }
    if old.last != 0 {
        todo!("last: shop.v2.Order has no such field");
    }
    if old.rush {
        todo!("rush: shop.v2.Order has no such field");
    }
    if old.weight != 0 {
        todo!("weight: shop.v2.Order has no such field");
    }
    if old.price != 0.0 {
        todo!("price: shop.v2.Order has no such field");
    }
    crate::shop::v2::Order {
        id: old.id,
        items: old.items.into_iter().map(|one| shop_v1_item(one)).collect(),
        extension: old.extension,
        color: shop_v1_color(old.color),
        pay: old.pay.map(|one| match one {
            crate::shop::v1::order::Pay::Card(one) => crate::shop::v2::order::Pay::Card(one),
            crate::shop::v1::order::Pay::Cash(_) => todo!("cash: shop.v2.Order has no such field"),
        }),
        by_name: old.by_name.into_iter().map(|(key, one)| (key, shop_v1_item(one))).collect(),
        count: old.count.into(),
        ..Default::default()
    }
}

//! The messages of `order.v2.proto`, as `prost` generates them.

use std::collections::HashMap;

use envoy_types::pb::google::protobuf::Any;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Order {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int64, tag = "12")]
    pub(crate) count: i64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) items: Vec<Item>,
    #[prost(message, optional, tag = "4")]
    pub(crate) extension: Option<Any>,
    #[prost(int32, tag = "5")]
    pub(crate) color: i32,
    #[prost(oneof = "order::Pay", tags = "6")]
    pub(crate) pay: Option<order::Pay>,
    #[prost(map = "string, message", tag = "8")]
    pub(crate) by_name: HashMap<String, Item>,
    #[prost(string, tag = "9")]
    pub(crate) r#type: String,
}

pub(crate) mod order {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Pay {
        #[prost(string, tag = "6")]
        Card(String),
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Item {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, boxed, tag = "3")]
    pub(crate) inner: Option<Box<Item>>,
}

//! The messages of `order.v1.proto`, as `prost` generates them.

use std::collections::HashMap;

use envoy_types::pb::google::protobuf::Any;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Order {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int32, tag = "2")]
    pub(crate) count: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) items: Vec<Item>,
    #[prost(message, optional, tag = "4")]
    pub(crate) extension: Option<Any>,
    #[prost(int32, tag = "5")]
    pub(crate) color: i32,
    #[prost(oneof = "order::Pay", tags = "6, 7")]
    pub(crate) pay: Option<order::Pay>,
    #[prost(map = "string, message", tag = "8")]
    pub(crate) by_name: HashMap<String, Item>,
    #[prost(string, tag = "20")]
    pub(crate) code: String,
    #[prost(bytes = "vec", tag = "21")]
    pub(crate) seal: Vec<u8>,
    #[prost(int32, repeated, tag = "22")]
    pub(crate) tries: Vec<i32>,
    #[prost(map = "string, string", tag = "23")]
    pub(crate) labels: HashMap<String, String>,
    #[prost(int32, optional, tag = "24")]
    pub(crate) limit: Option<i32>,
    #[prost(message, optional, tag = "25")]
    pub(crate) gift: Option<Item>,
    #[prost(int32, tag = "26")]
    pub(crate) last: i32,
    #[prost(bool, tag = "27")]
    pub(crate) rush: bool,
    #[prost(uint64, tag = "28")]
    pub(crate) weight: u64,
    #[prost(double, tag = "29")]
    pub(crate) price: f64,
}

pub(crate) mod order {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Pay {
        #[prost(string, tag = "6")]
        Card(String),
        #[prost(string, tag = "7")]
        Cash(String),
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Item {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, boxed, tag = "2")]
    pub(crate) inner: Option<Box<Item>>,
}

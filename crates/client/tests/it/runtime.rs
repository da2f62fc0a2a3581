//! V-47: a layer of a runtime over RTDS, as a program follows it.

use envoy_types::pb::envoy::service::runtime::v3::Runtime as RuntimeResource;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value as ProtoValue, value::Kind};
use oxds_client::{Bootstrap, ClientPool, Source};
use oxds_testkit::ControlPlane;
use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use oxds_types::runtime::{Layer, Runtime, Source as Origin, Value};
use prost::Message;
use tokio::sync::mpsc;

fn resource(kind: Kind) -> Any {
    let value = ProtoValue { kind: Some(kind) };
    let layer = Struct {
        fields: [("shop.mode".to_owned(), value)].into(),
    };
    let resource = RuntimeResource {
        name: "shop".to_owned(),
        layer: Some(layer),
    };
    Any {
        type_url: ResourceType::RUNTIME.type_url().to_owned(),
        value: resource.encode_to_vec().into(),
    }
}

/// Given a program that follows a layer over SotW, when the resource comes and changes, then the layer follows; an
/// invalid one is NACKed with its key, and changes nothing. A value that the program sets in a later layer wins.
#[tokio::test]
async fn v47_rtds_layer_of_a_program_follows_and_nacks() {
    let server = ControlPlane::start().await.unwrap();
    let layers = vec![
        Layer::new("rtds", Origin::Rtds("shop".to_owned())),
        Layer::new("own", Origin::Static),
    ];
    let runtime = Runtime::new(layers).unwrap();
    let (changed, mut changes) = mpsc::unbounded_channel();
    let _subscription = runtime.on_change(move || changed.send(()).unwrap());
    let bootstrap = Bootstrap::builder(server.address().to_string());
    let client = ClientPool::new(bootstrap.build().unwrap()).client("rtds");
    let follow = |layer| client.follow_runtime(&Source::ads(), &runtime, layer, "shop");
    let unknown = follow("rtsd").err().unwrap().to_string();
    assert_eq!(unknown, "unknown layer \"rtsd\": expected one of rtds, own");
    tokio::spawn(follow("rtds").unwrap());

    let mut stream = server.next_stream().await.unwrap();
    let request = stream.request().await.unwrap();
    assert_eq!(request.resource_names, ["shop"]);
    let text = |text: &str| resource(Kind::StringValue(text.to_owned()));
    stream.respond(&ResourceType::RUNTIME, "1", vec![text("gold")]);
    changes.recv().await.unwrap();
    let mode = || runtime.snapshot().get("shop.mode").cloned();
    assert_eq!(mode(), Some(Value::Text("gold".to_owned())));
    stream.request().await.unwrap();

    let list = resource(Kind::ListValue(ListValue::default()));
    stream.respond(&ResourceType::RUNTIME, "2", vec![list]);
    let nack = stream.request().await.unwrap().error_detail.unwrap();
    assert!(
        nack.message.contains("shop.mode: a list: expected"),
        "{nack:?}"
    );
    assert_eq!(mode(), Some(Value::Text("gold".to_owned())));

    stream.respond(&ResourceType::RUNTIME, "3", vec![text("iron")]);
    changes.recv().await.unwrap();
    assert_eq!(mode(), Some(Value::Text("iron".to_owned())));
    assert_eq!(runtime.layers()[0].error, None);
    let own = Layer::new("own", Origin::Static).with("shop.mode", true);
    runtime.replace(own.unwrap()).unwrap();
    assert_eq!(runtime.snapshot().flag("shop.mode"), Some(true));
}

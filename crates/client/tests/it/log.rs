//! Log of the client: the crate's front page promises targets, levels and fields.

use std::fmt;
use std::sync::{Arc, Mutex};

use oxds_client::WatchErrorReason;
use oxds_core::resource::Cluster;
use oxds_testkit::ControlPlane;
use oxds_testkit::resources::{cluster, static_cluster};
use oxds_types::ResourceType;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::authorities::entry;
use crate::scripted::{ambient, error, value};
use oxds_client::{Bootstrap, ClientPool};

/// A subscriber that keeps the events of oxds as `LEVEL target: message field=value …`.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

/// Ends a [`Log`] when it is dropped.
pub(crate) struct Listening {
    _first: DefaultGuard,
    // With one subscriber, tracing asks only that of the thread on which an event is first met, which may belong to
    // another test, and caches the result; with a second one it asks both.
    _second: Dispatch,
}

/// Sets the subscriber of this thread, so that it gets every event, also of call sites that another test reached first.
pub(crate) fn listen(subscriber: impl Subscriber + Clone + Send + Sync + 'static) -> Listening {
    Listening {
        _second: Dispatch::new(subscriber.clone()),
        _first: tracing::subscriber::set_default(subscriber),
    }
}

impl Log {
    /// Starts a log of this thread.
    pub(crate) fn start() -> (Self, Listening) {
        let log = Self::default();
        (log.clone(), listen(log))
    }

    /// Takes the events so far, without those that hold whole messages.
    pub(crate) fn take(&self) -> Vec<String> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        let short = events
            .into_iter()
            .filter(|event| !event.starts_with("TRACE"));
        short.collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("oxds::")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let text = format!("{level} {target}: {}{}", line.message, line.fields);
        self.0.lock().unwrap().push(text);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields += &format!(" {name}={value:?}"),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// given two servers, the first dead, and a subscriber / when the second serves, then sends one invalid cluster, and
/// drops another / then each step is an event with server, type, name and cause.
#[tokio::test]
async fn each_step_of_a_client_is_logged_with_its_cause() {
    let (log, _listening) = Log::start();
    let dead = ControlPlane::start().await.unwrap();
    let server = ControlPlane::start().await.unwrap();
    dead.kill();
    let entries = [&dead, &server].map(|server| entry(server, ""));
    let json = format!(r#"{{"xds_servers":[{}]}}"#, entries.join(","));
    let client = ClientPool::new(Bootstrap::from_json(&json).unwrap()).client("log");
    let (mut c, mut gone) = (
        client.watch::<Cluster>("c"),
        client.watch::<Cluster>("gone"),
    );
    let mut stream = server.next_stream().await.unwrap();
    let (dead, uri) = (dead.address(), server.address());
    let resource_type = "envoy.config.cluster.v3.Cluster";
    let events = log.take();
    let closed = format!("INFO oxds::ads: stream closed server={dead} cause=Unavailable: ");
    assert!(events[0].starts_with(&closed), "{events:#?}");
    let expected = [
        format!("WARN oxds::ads: server unreachable server={dead}"),
        format!("DEBUG oxds::ads: stream opened server={uri}"),
    ];
    assert_eq!(events[1..], expected);

    stream.respond(
        &ResourceType::CLUSTER,
        "1",
        vec![cluster("c", "e"), cluster("gone", "e")],
    );
    value(&mut c).await;
    value(&mut gone).await;
    let changed = |name| {
        format!(
            "DEBUG oxds::resource: resource changed server={uri} resource_type={resource_type} name={name} version=1"
        )
    };
    let accepted = format!(
        "DEBUG oxds::ads: response ACKed server={uri} resource_type={resource_type} valid=2"
    );
    assert_eq!(log.take(), [accepted, changed("c"), changed("gone")]);

    stream.respond(&ResourceType::CLUSTER, "2", vec![static_cluster("c")]);
    let why = ambient(&mut c, WatchErrorReason::Invalid).await.to_string();
    let deleted = error(&mut gone, WatchErrorReason::DoesNotExist)
        .await
        .to_string();
    let events = log.take();
    let rejected = format!(
        "WARN oxds::ads: response NACKed server={uri} resource_type={resource_type} valid=0 invalid=1 cause=invalid {resource_type}: "
    );
    assert!(events[0].starts_with(&rejected), "{events:#?}");
    let expected = [
        format!(
            "WARN oxds::resource: resource not available resource_type={resource_type} name=gone cause={deleted}"
        ),
        format!(
            "WARN oxds::resource: resource kept, but may be outdated resource_type={resource_type} name=c cause={why}"
        ),
    ];
    assert_eq!(events[1..], expected);

    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    let current = tokio::time::timeout(oxds_testkit::SOON, c.next())
        .await
        .unwrap();
    assert_eq!(current, Some(oxds_client::Update::Ambient(None)));
    let again = format!(
        "INFO oxds::resource: resource is current again server={uri} resource_type={resource_type} name=c version=1"
    );
    assert_eq!(log.take()[1..], [again]);
}

/// Given a feature that no registry of the API has, and one that has, when a program adds both, then the first is
/// logged.
#[test]
fn v53_unregistered_feature_is_logged() {
    let (log, _listening) = Log::start();
    let builder = Bootstrap::builder("cp:1")
        .client_feature("com.acme.burst")
        .unwrap();
    let builder = builder
        .client_feature("xds.config.resource-in-sotw")
        .unwrap();
    builder.build().unwrap();
    let warning = "WARN oxds::ads: client feature is not registered: servers may not know it feature=com.acme.burst";
    assert_eq!(log.take(), [warning]);
}

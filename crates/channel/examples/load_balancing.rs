//! A load-balancing policy of the program: all RPCs go to the ready endpoint with the greatest weight.
//!
//! ```text
//! cargo run -p oxds-channel --features testing --example load_balancing
//! ```
//!
//! The cluster of the example has the policy as a control plane would send it:
//!
//! ```yaml
//! load_balancing_policy:
//!   policies:
//!   - typed_extension_config:
//!       name: greatest
//!       typed_config:
//!         "@type": type.googleapis.com/xds.type.v3.TypedStruct
//!         type_url: type.googleapis.com/example.GreatestWeight
//!         value: {}
//! ```

#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::net::SocketAddr;

use oxds_channel::policy::{
    CustomEndpoint, CustomPicker, CustomPolicy, CustomUpdate, Pick, PickCall, PolicyConfig,
};
use oxds_channel::testing::{Call, EchoBackend, Script, call, cluster, config};
use oxds_channel::{Connectivity, ExtensionConfig, Extensions, Invalid, Pool, XdsChannel};

/// The policy; it has no configuration.
#[derive(Debug)]
struct GreatestWeight;

/// The chosen endpoint, if one is ready.
#[derive(Debug)]
struct Chosen(Option<usize>, Connectivity);

impl GreatestWeight {
    /// Reads the configuration. An error is the NACK of the cluster.
    fn from_config(_: &ExtensionConfig) -> Result<Self, Invalid> {
        Ok(Self)
    }
}

impl CustomPolicy for GreatestWeight {
    fn name(&self) -> &str {
        "example.GreatestWeight"
    }

    fn update(&self, endpoints: &[CustomEndpoint<'_>]) -> CustomUpdate {
        let state = Connectivity::of_children(endpoints.iter().map(|each| each.state));
        let all = endpoints.iter().enumerate();
        let ready = all.filter(|(_, each)| each.state == Connectivity::Ready);
        let greatest = ready.max_by_key(|(_, each)| each.endpoint.weight);
        let chosen = Chosen(greatest.map(|(index, _)| index), state);
        CustomUpdate {
            state,
            picker: Box::new(chosen),
        }
    }
}

impl CustomPicker for Chosen {
    fn pick(&self, _: &PickCall<'_>, _: &mut dyn FnMut() -> u64) -> Pick {
        match (self.0, self.1) {
            (Some(index), _) => Pick::Child(index),
            (None, Connectivity::TransientFailure) => Pick::Fail,
            (None, _) => Pick::Queue,
        }
    }
}

/// Makes ten calls to three backends. Returns those that got calls, and the heaviest one.
pub(crate) async fn run() -> Result<(Vec<SocketAddr>, SocketAddr), Box<dyn Error>> {
    // A program gives these to its clients: `Options { extensions, .. }` of `ClientPool::with_options`.
    let extensions =
        Extensions::default().with_policy("example.GreatestWeight", GreatestWeight::from_config);
    // A control plane sends this in the cluster.
    let sent = ExtensionConfig::of_texts("example.GreatestWeight", []);
    let policy = extensions.policy(&sent).ok_or("the policy is known")??;

    let mut backends = Vec::new();
    for _ in 0..3 {
        backends.push(EchoBackend::start().await?);
    }
    let addresses: Vec<_> = backends.iter().map(EchoBackend::address).collect();
    let heaviest = addresses[1];
    let builder = XdsChannel::builder("xds:///shop")
        .pool(Pool::new())
        .report_picks(true);
    let (script, channel) = Script::channel(builder)?;
    let shop = cluster("shop", &[&[("here", 1, &addresses)]], 0)
        .with_policy(PolicyConfig::Custom(policy))
        .map_endpoints(|endpoint| {
            endpoint.weight = if endpoint.address == heaviest { 9 } else { 1 };
        });
    script.set(config(&[("", &[(1, 0)])], vec![shop]));
    // The first calls may come before the heaviest endpoint is ready.
    let all_ready = || {
        let endpoints = channel
            .status()
            .clusters
            .into_iter()
            .flat_map(|each| each.endpoints);
        let ready = endpoints.filter(|each| each.connectivity == Connectivity::Ready);
        ready.count() == 3
    };
    while !all_ready() {
        call(&channel, Call::default()).await?;
    }
    tokio::task::yield_now().await;
    let mut used = Vec::new();
    for _ in 0..10 {
        let (_, picked) = call(&channel, Call::default()).await?;
        used.extend(picked.map(|picked| picked.address));
    }
    used.sort();
    used.dedup();
    Ok((used, heaviest))
}

#[allow(dead_code, reason = "a test runs `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (used, heaviest) = run().await?;
    println!("calls went to {used:?}, the heaviest is {heaviest}");
    Ok(())
}

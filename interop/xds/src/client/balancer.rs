//! The load-balancing policy `test.RpcBehaviorLoadBalancer` of the suite: round robin that adds the header
//! `rpc-behavior` to each attempt, with the value of its field `rpcBehavior` (gRFC A52).

use std::sync::atomic::{AtomicUsize, Ordering};

use oxds_channel::policy::{
    CustomEndpoint, CustomPicker, CustomPolicy, CustomUpdate, Pick, PickCall,
};
use oxds_channel::{Connectivity, ExtensionConfig, Extensions, Invalid};

use crate::server::BEHAVIOUR;

const NAME: &str = "test.RpcBehaviorLoadBalancer";
/// Field of its configuration.
const FIELD: &str = "rpcBehavior";

/// Returns the extensions of the client: this policy.
pub(super) fn extensions() -> Extensions {
    Extensions::default().with_policy(NAME, |config: &ExtensionConfig| {
        let behaviour = config.text(FIELD);
        let behaviour = behaviour.ok_or_else(|| Invalid::new("must be a text").at(FIELD))?;
        Ok(RpcBehaviour(behaviour.to_owned()))
    })
}

/// The policy, with the value of the header.
#[derive(Debug)]
struct RpcBehaviour(String);

/// Picker of the policy over the ready endpoints.
#[derive(Debug)]
struct InTurn {
    ready: Vec<usize>,
    state: Connectivity,
    next: AtomicUsize,
    behaviour: String,
}

impl CustomPolicy for RpcBehaviour {
    fn name(&self) -> &str {
        NAME
    }

    fn update(&self, endpoints: &[CustomEndpoint<'_>]) -> CustomUpdate {
        let state = Connectivity::of_children(endpoints.iter().map(|each| each.state));
        let all = endpoints.iter().enumerate();
        let ready = all.filter(|(_, each)| each.state == Connectivity::Ready);
        let picker = InTurn {
            ready: ready.map(|(index, _)| index).collect(),
            state,
            next: AtomicUsize::default(),
            behaviour: self.0.clone(),
        };
        CustomUpdate {
            state,
            picker: Box::new(picker),
        }
    }
}

impl CustomPicker for InTurn {
    fn pick(&self, _: &PickCall<'_>, _: &mut dyn FnMut() -> u64) -> Pick {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        match next.checked_rem(self.ready.len()) {
            Some(turn) => Pick::Child(self.ready[turn]),
            None if self.state == Connectivity::TransientFailure => Pick::Fail,
            None => Pick::Queue,
        }
    }

    fn add_headers(&self, _: &PickCall<'_>, _: usize, add: &mut dyn FnMut(&str, &str)) {
        add(BEHAVIOUR, &self.behaviour);
    }
}

//! C-200: policies of the program (gRFC A52).

use oxds_core::lb::Connectivity::{self, Idle, Ready};
use oxds_core::lb::policy::{
    CustomEndpoint, CustomPicker, CustomPolicy, CustomUpdate, Demand, Pick, PickCall, PolicyConfig,
};
use oxds_core::resource::{Cluster, ExtensionConfig, Extensions, Invalid, ResourceParsers};
use oxds_types::ResourceType;

use crate::support::text::bytes;

/// Picks the endpoint of its configured number.
#[derive(Debug)]
struct Fixed(usize);

impl CustomPolicy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn demand(&self) -> Demand {
        Demand::OnPick
    }

    fn update(&self, endpoints: &[CustomEndpoint<'_>]) -> CustomUpdate {
        let state = Connectivity::of_children(endpoints.iter().map(|each| each.state));
        CustomUpdate {
            state,
            picker: Box::new(Self(self.0)),
        }
    }
}

impl CustomPicker for Fixed {
    fn pick(&self, _: &PickCall<'_>, _: &mut dyn FnMut() -> u64) -> Pick {
        Pick::Child(self.0)
    }
}

fn extensions() -> Extensions {
    Extensions::default().with_policy("example.Fixed", |config: &ExtensionConfig| {
        match config.number("number") {
            Some(number) if number >= 0.0 => Ok(Fixed(number as usize)),
            _ => Err(Invalid::new("must be a number that is not negative").at("number")),
        }
    })
}

/// Reads a cluster with this policy before round robin.
fn read(extensions: &Extensions, fields: &str) -> Result<PolicyConfig, String> {
    let text = format!(
        "name: 'c' type: EDS eds_cluster_config {{ eds_config {{ ads {{}} }} }} load_balancing_policy {{
           policies {{ typed_extension_config {{ name: 'p' typed_config {{
             [type.googleapis.com/xds.type.v3.TypedStruct] {{
               type_url: 'type.googleapis.com/example.Fixed' value {{ {fields} }} }} }} }} }}
           policies {{ typed_extension_config {{ name: 'r' typed_config {{
             [type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin] {{}} }} }} }} }}"
    );
    let value = bytes(&ResourceType::CLUSTER, &text);
    let read = ResourceParsers::grpc_with(extensions).parse(&ResourceType::CLUSTER, &value);
    let cluster = read
        .map_err(|invalid| invalid.to_string())?
        .get::<Cluster>();
    Ok(cluster.expect("a parser of clusters").policy.clone())
}

const NUMBER_ONE: &str = "fields { key: 'number' value { number_value: 1 } }";

#[test]
fn c200_policy_of_the_program_is_read_by_its_name() {
    // Without the extension it is unknown, and skipped.
    let known = read(&Extensions::default(), NUMBER_ONE);
    assert_eq!(known, Ok(PolicyConfig::RoundRobin));
    let custom = read(&extensions(), NUMBER_ONE).unwrap();
    assert_eq!(custom.to_string(), "fixed");
    assert_eq!(
        read(&extensions(), "").unwrap_err(),
        "c: load_balancing_policy.policies[0].typed_extension_config.typed_config.value.number: \
         must be a number that is not negative"
    );
}

#[test]
fn c200_policy_of_the_program_picks_in_its_locality() {
    use crate::lb::policy::{built, endpoints_of, locality, pick, update};
    let custom = read(&extensions(), NUMBER_ONE).unwrap();
    let localities = [locality(1, 1, &[1, 1]), locality(2, 1, &[1, 1])];
    let policy = built(&PolicyConfig::WrrLocality(custom.into()), &localities);
    assert_eq!(policy.demand(), Demand::OnPick);
    assert_eq!(endpoints_of(&policy), [[0], [1], [2], [3]]);
    // given that only the second locality is ready, its second endpoint has the number 3 of all
    let ready = update(&policy, &[Idle, Idle, Ready, Ready]);
    assert_eq!((ready.state, pick(&ready)), (Ready, Pick::Child(3)));
    // and an index beyond the locality fails the RPC
    let short = [locality(1, 1, &[1]), locality(2, 1, &[1])];
    let custom = read(&extensions(), NUMBER_ONE).unwrap();
    let policy = built(&PolicyConfig::WrrLocality(custom.into()), &short);
    assert_eq!(pick(&update(&policy, &[Ready, Ready])), Pick::Fail);
}

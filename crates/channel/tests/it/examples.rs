//! The examples of the crate are not only compiled, but run.

#[path = "../../examples/http_filter.rs"]
mod http_filter;
#[path = "../../examples/load_balancing.rs"]
mod load_balancing;

#[tokio::test]
async fn c236_example_filter_changes_the_headers() {
    assert_eq!(http_filter::run("blue").await.unwrap(), "blue");
    // An invalid configuration is the NACK of the listener.
    let error = http_filter::run("").await.unwrap_err();
    assert_eq!(error.to_string(), "color: must be the value of a header");
}

#[tokio::test]
async fn c200_example_policy_chooses_the_endpoint() {
    let (used, heaviest) = load_balancing::run().await.unwrap();
    assert_eq!(used, [heaviest]);
}

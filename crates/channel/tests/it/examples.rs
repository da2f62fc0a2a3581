//! The examples of the crate are not only compiled, but run.

#[path = "../../examples/http_filter.rs"]
mod http_filter;

#[tokio::test]
async fn c236_example_filter_changes_the_headers() {
    assert_eq!(http_filter::run("blue").await.unwrap(), "blue");
    // An invalid configuration is the NACK of the listener.
    let error = http_filter::run("").await.unwrap_err();
    assert_eq!(error.to_string(), "color: must be the value of a header");
}

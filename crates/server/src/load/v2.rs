//! Load reports of clients of API v2.

use std::convert::Infallible;
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingServiceServer;
use http::uri::PathAndQuery;
use http::{Request, Response};
use tonic::body::Body;
use tower_service::Service;

use super::LoadService;

/// Where clients of v2 report.
pub(crate) const V2_PATH: &str =
    "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats";
const V3_PATH: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

/// The v3 service under the name it had in v2: the messages have the same fields, by the same numbers.
#[derive(Debug, Clone)]
pub(crate) struct LoadServiceV2(pub(crate) LoadReportingServiceServer<LoadService>);

impl Service<Request<axum::body::Body>> for LoadServiceV2 {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future =
        <LoadReportingServiceServer<LoadService> as Service<Request<axum::body::Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<axum::body::Body>) -> Self::Future {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(V3_PATH));
        // Another path makes no invalid URI of a valid one; if it did, the service would not know the path.
        *request.uri_mut() = parts.try_into().unwrap_or_default();
        self.0.call(request)
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::descriptor::{message, v2_pool};
    use oxds_types::version_map::v2_name;

    /// All that this server says, v2 can say, and in the same way.
    #[test]
    fn s62_load_reports_are_the_same_in_both_versions() {
        let response = "envoy.service.load_stats.v3.LoadStatsResponse";
        let new = message(response).unwrap();
        let old = v2_pool()
            .get_message_by_name(v2_name(response).unwrap())
            .unwrap();
        for said in ["clusters", "load_reporting_interval", "send_all_clusters"] {
            let numbers = [&new, &old].map(|m| m.get_field_by_name(said).unwrap().number());
            assert_eq!(numbers[0], numbers[1], "{said}");
        }
    }
}

//! Service `Maintenance`: state and alarms of a member.

use oxds_types::etcd::{AlarmRequest, AlarmResponse, StatusRequest, StatusResponse};

use super::error::EtcdError;
use super::etcd_client::{EtcdClient, STATUS};
use super::method::Method;

const ALARM: Method<AlarmRequest, AlarmResponse> = Method::new("/etcdserverpb.Maintenance/Alarm");

impl EtcdClient {
    /// Returns the state of the member: version, leader, size of the database.
    ///
    /// # Errors
    /// Those of all calls. A member without a leader answers.
    pub async fn status(&self) -> Result<StatusResponse, EtcdError> {
        self.call(STATUS, StatusRequest {}).await
    }

    /// Lists, raises or clears alarms.
    ///
    /// # Errors
    /// Those of all calls.
    pub async fn alarm(&self, request: AlarmRequest) -> Result<AlarmResponse, EtcdError> {
        self.call(ALARM, request).await
    }
}

//! Random operations on few keys, so that they meet.

use oxds_types::etcd::{
    CompareResult, CompareTarget, CompareValue, RangeRequest, Request, TxnRequest,
};

use super::super::shared::{operation, put, read};
use super::operation::{COMPACTED, Operation, compare, delete};

/// A generator of operations (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    /// The seed is not 0.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn number(&mut self, limit: u64) -> i64 {
        i64::try_from(self.below(limit)).unwrap_or_default()
    }

    fn key(&mut self) -> String {
        format!("/r/{}", self.below(6))
    }

    /// Returns the next operation.
    pub(super) fn operation(&mut self) -> Operation {
        match self.below(10) {
            0..3 => Operation::Range(self.range()),
            3..5 => Operation::Put(put(&self.key(), &self.below(100).to_string())),
            5 => Operation::Delete(delete(&self.key(), "")),
            _ => Operation::Txn(self.transaction(2)),
        }
    }

    fn range(&mut self) -> RangeRequest {
        let mut range = match self.below(3) {
            0 => read(&self.key()),
            _ => read("/r/"),
        };
        range.limit = self.number(5);
        range.keys_only = self.below(4) == 0;
        if self.below(3) == 0 {
            // Some are compacted.
            range.revision = COMPACTED - 2 + self.number(60);
        }
        range
    }

    fn transaction(&mut self, depth: u64) -> TxnRequest {
        let compares = (0..self.below(3)).map(|_| self.compare()).collect();
        TxnRequest {
            compare: compares,
            success: self.list(depth),
            failure: self.list(depth),
        }
    }

    fn list(&mut self, depth: u64) -> Vec<oxds_types::etcd::RequestOp> {
        let count = self.below(4);
        let one = |random: &mut Self| match random.below(6) {
            0 => Request::Range(read("/r/")),
            1 => Request::DeleteRange(delete(&random.key(), "")),
            2 if depth > 0 => Request::Txn(random.transaction(depth - 1)),
            _ => Request::Put(put(&random.key(), &random.below(100).to_string())),
        };
        (0..count).map(|_| operation(one(self))).collect()
    }

    fn compare(&mut self) -> oxds_types::etcd::Compare {
        let results = [
            CompareResult::Equal,
            CompareResult::Greater,
            CompareResult::Less,
            CompareResult::NotEqual,
        ];
        let result = results[usize::try_from(self.below(4)).unwrap_or_default()];
        let key = self.key();
        match self.below(3) {
            0 => {
                let version = CompareValue::Version(self.number(3));
                compare(&key, CompareTarget::Version, result, version)
            }
            1 => {
                let revision = CompareValue::ModRevision(self.number(100));
                compare(&key, CompareTarget::Mod, result, revision)
            }
            _ => {
                let value = CompareValue::Value(self.below(100).to_string().into());
                compare(&key, CompareTarget::Value, result, value)
            }
        }
    }
}

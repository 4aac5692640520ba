//! What a write takes from the ResourceQuotas of its namespace, and who may take from them now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use portcullis_store::Write;
use tokio::sync::OwnedMutexGuard;

/// From so many unused turns on they are removed.
const UNUSED_TURNS: usize = 1024;

/// Lets one write after the other take from the quotas of a namespace: otherwise all but one of many would have to be made
/// again. Servers that share a store learn of each other by conflicts.
#[derive(Debug, Default)]
pub(crate) struct QuotaTurns {
    by_namespace: Mutex<HashMap<Box<str>, Weak<tokio::sync::Mutex<()>>>>,
}

impl QuotaTurns {
    /// Waits until nobody else takes from the quotas of this namespace.
    pub(crate) async fn wait(&self, namespace: &str) -> OwnedMutexGuard<()> {
        self.of(namespace).lock_owned().await
    }

    fn of(&self, namespace: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(namespace).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= UNUSED_TURNS {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(namespace.into(), Arc::downgrade(&turn));
        turn
    }
}

/// What a write takes from the quotas of its namespace. It is stored together with the object, so that nothing is counted
/// that is not there, and nothing is there that was not counted.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    /// Held until the object is stored.
    _turn: Option<OwnedMutexGuard<()>>,
    writes: Vec<Write>,
}

impl Reservation {
    /// One that is written like this, by who has the turn.
    pub(crate) fn new(turn: OwnedMutexGuard<()>, writes: Vec<Write>) -> Self {
        Self { _turn: Some(turn), writes }
    }

    /// The writes of the quotas.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Write> {
        self.writes.iter().cloned()
    }

    /// Whether a conflict about this key means that the quotas have changed since they were read.
    pub(crate) fn is_outrun(&self, key: &str) -> bool {
        self.writes.iter().any(|write| *write.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_after_the_other_has_the_turn_of_a_namespace() {
        let turns = QuotaTurns::default();
        let mine = turns.wait("a").await;
        let _other = turns.wait("b").await;
        assert!(turns.of("a").try_lock().is_err());
        drop(mine);
        assert!(turns.of("a").try_lock().is_ok());
    }

    #[tokio::test]
    async fn turns_that_nobody_uses_are_removed() {
        let turns = QuotaTurns::default();
        let _kept = turns.wait("kept").await;
        for i in 0..10 * UNUSED_TURNS {
            drop(turns.wait(&i.to_string()).await);
        }
        assert!(turns.by_namespace.lock().unwrap().len() <= UNUSED_TURNS);
        assert!(turns.of("kept").try_lock().is_err());
    }
}

//! Reloads kubeconfig files of running programs.

use std::time::Duration;

use portcullis_client::Connection;

/// Reloads a kubeconfig when its certificate or token was renewed.
pub(crate) async fn refresh(connection: Connection) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        match connection.refresh().await {
            Ok(true) => tracing::info!("the kubeconfig has changed; reconnecting"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the kubeconfig cannot be used; the last connection stays"),
        }
    }
}

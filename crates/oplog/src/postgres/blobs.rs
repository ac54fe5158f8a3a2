//! Blobs in the database: sealed as in a state directory, in parts.

use tidegate_model::Digest;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Inner;
use super::connection::{Parameter, within};
use crate::LogError;

/// Maximum size of a part in bytes. Larger values would have to be assembled in the memory of the server.
const PART_BYTES: usize = 1 << 20;

impl Inner {
    /// Stores sealed content under its name, and protects it until this replica refers to it. Existing content
    /// stays as it is.
    pub(super) async fn write_blob(
        &self,
        client: &Client,
        name: Digest,
        sealed: &[u8],
    ) -> Result<(), LogError> {
        const ADD: &str =
            "INSERT INTO blob (digest, parts) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1";
        const PARTS: &str = "INSERT INTO blob_part (digest, part, bytes) VALUES ($1, $2, $3)";
        const HOLD: &str =
            "INSERT INTO blob_hold (digest, incarnation) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let digest = name.0.as_slice();
        let parts: Vec<&[u8]> = sealed.chunks(PART_BYTES).collect();
        let number = i32::try_from(parts.len()).unwrap_or(i32::MAX);
        within("start to store a blob", client.batch_execute("BEGIN")).await?;
        let write = async {
            let added = within(
                "store a blob",
                client.query_typed(ADD, &[(&digest, Type::BYTEA), (&number, Type::INT4)]),
            )
            .await?;
            // One call for each part, because together they may exceed the time limit of a call.
            for (part, bytes) in (0_i32..).zip(&parts).take(if added.is_empty() { 0 } else { parts.len() }) {
                let parameters: [Parameter<'_>; 3] =
                    [(&digest, Type::BYTEA), (&part, Type::INT4), (bytes, Type::BYTEA)];
                within("store a blob", client.execute_typed(PARTS, &parameters)).await?;
            }
            within(
                "protect a blob",
                client.execute_typed(HOLD, &[(&digest, Type::BYTEA), (&self.incarnation, Type::UUID)]),
            )
            .await
        };
        match write.await {
            Ok(_) => within("store a blob", client.batch_execute("COMMIT")).await,
            Err(error) => {
                // If this fails too, the connection is closed, which has the same effect.
                let _ = within("cancel", client.batch_execute("ROLLBACK")).await;
                Err(error)
            }
        }
    }

    pub(super) async fn read_blob(&self, client: &Client, name: Digest) -> Result<Vec<u8>, LogError> {
        const QUERY: &str = "SELECT b.parts, p.bytes FROM blob b LEFT JOIN blob_part p USING (digest) \
             WHERE digest = $1 ORDER BY p.part";
        let digest = name.0.as_slice();
        let rows = within("read a blob", client.query_typed(QUERY, &[(&digest, Type::BYTEA)])).await?;
        let Some(first) = rows.first() else { return Err(LogError::BlobMissing { digest: name }) };
        let wanted: i32 = first.try_get(0).unwrap_or(-1);
        let parts: Vec<&[u8]> =
            rows.iter().filter_map(|row| row.try_get::<_, Option<&[u8]>>(1).ok().flatten()).collect();
        if i32::try_from(parts.len()) != Ok(wanted) {
            let reason = format!("it has {} of {wanted} parts", parts.len());
            return Err(LogError::BlobDamaged { digest: name, reason });
        }
        Ok(parts.concat())
    }
}

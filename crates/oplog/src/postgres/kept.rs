//! Small named values alongside the log, such as stored plans. Only the leader can change them.

use tidegate_model::Digest;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::connection::{Parameter, within};
use super::{Inner, PostgresLog};
use crate::LogError;

/// Kind of a kept value. The numbers are part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptKind {
    /// Metadata of a stored plan, by the plan's hash.
    PlanMetadata = 1,
    /// Sealed content of a stored plan, by the digest of the content.
    PlanContent = 2,
    /// Sealed session of the web page, by the digest of the content.
    Session = 3,
}

impl KeptKind {
    fn number(self) -> i16 {
        match self {
            Self::PlanMetadata => 1,
            Self::PlanContent => 2,
            Self::Session => 3,
        }
    }
}

impl Inner {
    async fn read_kept(
        &self,
        client: &Client,
        kind: KeptKind,
        name: &str,
    ) -> Result<Option<Vec<u8>>, LogError> {
        const QUERY: &str = "SELECT content FROM kept WHERE kind = $1 AND name = $2";
        within("read a stored value", async {
            let row =
                client.query_typed_opt(QUERY, &[(&kind.number(), Type::INT2), (&name, Type::TEXT)]).await?;
            row.map(|row| row.try_get(0)).transpose()
        })
        .await
    }

    async fn list_kept(&self, client: &Client, kind: KeptKind) -> Result<Vec<String>, LogError> {
        const QUERY: &str = "SELECT name FROM kept WHERE kind = $1 ORDER BY name";
        within("list stored values", async {
            let rows = client.query_typed(QUERY, &[(&kind.number(), Type::INT2)]).await?;
            rows.iter().map(|row| row.try_get(0)).collect()
        })
        .await
    }

    /// Stores a value, or removes it if `content` is `None`. Waits while the database is unavailable.
    async fn write_kept(&self, kind: KeptKind, name: &str, content: Option<&[u8]>) -> Result<(), LogError> {
        const WRITE: &str = "INSERT INTO kept (kind, name, content) VALUES ($1, $2, $3) \
             ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, changed_at = now()";
        const REMOVE: &str = "DELETE FROM kept WHERE kind = $1 AND name = $2";
        let mut writer = self.writer.lock().await;
        loop {
            let client = self.writer_client(&mut writer).await?;
            let number = kind.number();
            let statement = async {
                let key: [Parameter<'_>; 2] = [(&number, Type::INT2), (&name, Type::TEXT)];
                match content {
                    Some(content) => {
                        let [kind, name] = key;
                        client.execute_typed(WRITE, &[kind, name, (&content, Type::BYTEA)]).await.map(drop)
                    }
                    None => client.execute_typed(REMOVE, &key).await.map(drop),
                }
            };
            let result = self.in_fence(&client, &writer, statement).await;
            if let Some(result) = self.finish_change(&mut writer, client, result).await {
                return result;
            }
        }
    }
}

impl PostgresLog {
    /// Returns a value.
    pub fn kept(&self, kind: KeptKind, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let name = name.to_owned();
        self.read(move |inner, client| {
            let name = name.clone();
            Box::pin(async move { inner.read_kept(client, kind, &name).await })
        })
    }

    /// Returns the names of all values of a kind.
    pub fn list_kept(&self, kind: KeptKind) -> Result<Vec<String>, LogError> {
        self.read(move |inner, client| Box::pin(inner.list_kept(client, kind)))
    }

    /// Stores a value durably.
    pub fn keep(&self, kind: KeptKind, name: &str, content: &[u8]) -> Result<(), LogError> {
        let (name, content) = (name.to_owned(), content.to_vec());
        self.wait(move |inner| Box::pin(async move { inner.write_kept(kind, &name, Some(&content)).await }))?
    }

    /// Removes a value.
    pub fn discard(&self, kind: KeptKind, name: &str) -> Result<(), LogError> {
        let name = name.to_owned();
        self.wait(move |inner| Box::pin(async move { inner.write_kept(kind, &name, None).await }))?
    }

    /// Encrypts a value, and stores it durably under a keyed digest of its content.
    pub fn keep_sealed(&self, kind: KeptKind, content: &[u8]) -> Result<Digest, LogError> {
        crate::append_checks::check_blob_size(content)?;
        let name = self.inner.sealing.name_of(content);
        let sealed = self.seal(name, content)?;
        self.keep(kind, &name.to_string(), &sealed)?;
        Ok(name)
    }

    /// Returns the decrypted content of a value.
    pub fn kept_sealed(&self, kind: KeptKind, name: Digest) -> Result<Vec<u8>, LogError> {
        self.inner.unseal(name, &self.kept_bytes(kind, name)?)
    }

    /// Returns the encrypted bytes of a value, for a copy to a log with the same key.
    pub fn kept_bytes(&self, kind: KeptKind, name: Digest) -> Result<Vec<u8>, LogError> {
        self.kept(kind, &name.to_string())?.ok_or(LogError::BlobMissing { digest: name })
    }
}

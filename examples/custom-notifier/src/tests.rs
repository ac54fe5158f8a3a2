use tidegate::tokio::{self, sync::mpsc::unbounded_channel};

use super::deploy;

#[tokio::test(crate = "tidegate::tokio")]
async fn the_chat_receives_all_messages_in_order() {
    let (chat, mut room) = unbounded_channel();
    deploy(chat).await.unwrap();
    let mut received = Vec::new();
    while let Some(line) = room.recv().await {
        received.push(line);
    }
    assert_eq!(received.first().unwrap(), "web the deployment started");
    assert!(
        received.iter().any(|line| line.contains("Deployment") && line.ends_with("Succeeded")),
        "{received:?}"
    );
    assert!(received.last().unwrap().starts_with("web Succeeded, "), "{received:?}");
}

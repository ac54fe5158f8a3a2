use tidegate::tokio::{self, sync::mpsc::unbounded_channel};

use super::deploy;

#[tokio::test(crate = "tidegate::tokio")]
async fn the_chat_hears_everything_in_order() {
    let (chat, mut room) = unbounded_channel();
    deploy(chat).await.unwrap();
    let mut heard = Vec::new();
    while let Some(line) = room.recv().await {
        heard.push(line);
    }
    assert_eq!(heard.first().unwrap(), "web the deployment begins");
    assert!(heard.iter().any(|line| line.contains("Deployment") && line.ends_with("Succeeded")), "{heard:?}");
    assert!(heard.last().unwrap().starts_with("web Succeeded, "), "{heard:?}");
}

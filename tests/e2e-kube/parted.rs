//! An Application that goes, without a finalizer, while its sync is under way. The audit log says what was written for which
//! operation.

use serde_json::{Value, json};

use crate::applications;
use crate::site::Site;

/// Its operations, oldest first: their ids and phases.
fn operations(site: &Site) -> Vec<(String, String)> {
    let listed = site.run(&["ops", "list", "-o", "json"]).expect_code(0).out;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let word = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(|one| (word(one, "id"), word(one, "phase"))).collect()
}

/// Its hook runs to its end, over a kill, and nothing is deployed after it; and that is nothing to the next one of its name.
pub async fn a_sync_ends_with_its_hook_when_its_application_is_gone() {
    let site = applications::site().await;
    applications::deploys_when_told(&site, "1");
    let serving = applications::serve(&site);
    applications::create(&site).await;
    applications::until(&site, applications::is_at_work).await;
    let [(old, _)] = &operations(&site)[..] else { panic!("{:?}", operations(&site)) };
    let path = format!("{}/shop", applications::path(&site));
    site.observer().delete(&path, &json!({})).await.unwrap();
    site.observer().until(&path, |found| found.is_none()).await;
    // Another one, before the first one's sync is over.
    applications::create(&site).await;
    applications::until(&site, |app| app["status"]["reconciledAt"].is_string()).await;
    serving.signal("KILL");
    serving.finish();
    let serving = applications::serve(&site);
    applications::ends(&site, "migrate").await;
    // That of the new one runs the hook of its own.
    let by_another = |app: &Value| applications::is_at_work(app) && operations(&site).len() == 2;
    applications::until(&site, by_another).await;
    assert_eq!(operations(&site)[0], (old.clone(), "Failed".to_owned()));
    assert_eq!(site.creations("ConfigMap", "settings").await, 0, "{:#?}", site.writes().await.summaries());
    applications::ends(&site, "migrate").await;
    let app = applications::until(&site, applications::is_done).await;
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 1);
    let (new, _) = &operations(&site)[1];
    let writes = site.writes().await;
    let settings = writes.0.iter().filter(|event| event.name == "settings");
    let by: Vec<_> = settings.filter_map(|event| event.operation.as_ref()).collect();
    assert_eq!(by, [new], "{:#?}", writes.summaries());
    for operation in [old, new] {
        site.assert_created_once_by(Some(operation.as_str()), "Job", "migrate", "parted").await;
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

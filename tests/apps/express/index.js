const express = require("express");

const app = express();
const notes = [];
app.use(express.urlencoded({ extended: false }));

app.get("/", (request, response) => {
  response.send(`<!doctype html>
<html lang="en">
  <head><title>Express app</title><link rel="icon" href="data:,"></head>
  <body>
    <h1>Express says hello</h1>
    <p>Host ${request.get("host")}</p>
    <form method="post" action="/notes">
      <label>Note <input name="note"></label>
      <button>Add</button>
    </form>
    <p>Counted ${notes.length}</p>
  </body>
</html>`);
});

app.post("/notes", (request, response) => {
  notes.push(String(request.body.note));
  response.redirect(`http://${request.get("host")}/`);
});

app.listen(3000, () => console.log("Express listens on 3000"));

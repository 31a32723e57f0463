// Draws the figures of executed lessons from the data that stands beside them.
document.addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll(".rlkit-drawn")) {
    const figure = JSON.parse(place.querySelector("script").textContent);
    const config = { responsive: true, displaylogo: false, displayModeBar: false };
    Plotly.newPlot(place, figure.data, figure.layout, config);
  }
});

// Texts on the page with less contrast than WCAG's AA asks for, each as `ratio class: text`.
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

  // A canvas turns any CSS colour into bytes, over what lies under it.
  function bytes(color, under) {
    canvas.fillStyle = `rgb(${under.join(" ")})`;
    canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  }

  function ground(element) {
    return element ? bytes(getComputedStyle(element).backgroundColor, ground(element.parentElement)) : [255, 255, 255];
  }

  function luminance(rgb) {
    const linear = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return linear.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  }

  function ratioOf(element) {
    const under = ground(element);
    const over = bytes(getComputedStyle(element).color, under);
    const [high, low] = [luminance(over), luminance(under)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  }

  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const isSeen = element.checkVisibility({ visibilityProperty: true }) && !element.closest(".offscreen, .skip, [disabled]");
    if (!node.data.trim() || !isSeen || ratioOf(element) >= 4.5) continue;
    found.add(`${ratioOf(element).toFixed(2)} ${element.className || element.tagName}: ${node.data.trim().slice(0, 40)}`);
  }
  return [...found];
}

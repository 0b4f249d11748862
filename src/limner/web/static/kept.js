// Small values that a browser stores for a person, by name; the default if storage is full or not allowed.
export function kept(name, usual) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? usual;
  } catch {
    return usual;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function drop(name) {
  try {
    localStorage.removeItem(name);
    return true;
  } catch {
    return false;
  }
}
